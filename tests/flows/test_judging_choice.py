"""Answers that `evaluate-model` has judged, without a flow run."""

from pathlib import Path

from flows.judging import judge_job
from regrade.answers.local import LocalRepository
from regrade.jobs.job import EvaluationJob, JudgeSettings
from tests.stored import numbers, publish


def settings(**changes: str) -> JudgeSettings:
    return JudgeSettings(judges=("org/judge",), **changes)


def test_texts_are_judged_and_log_probabilities_are_not(tmp_path: Path) -> None:
    repository = LocalRepository(tmp_path / "answers")
    texts = publish(repository, numbers(0, 3))
    ranked = publish(repository, numbers(0, 3), benchmark="ranked", method="rank")
    job = EvaluationJob(model="org/tiny", benchmarks=("gsm8k",), answers=repository.uri)

    judging = judge_job(settings(rubric="correct"), job, [texts, ranked])

    assert judging is not None
    assert judging.answer_sets == (texts.manifest.answer_set_id,)
    assert judge_job(settings(rubric="correct"), job, [ranked]) is None
    assert judge_job(settings(), job, [texts]) is None  # not all stored answers that wait
