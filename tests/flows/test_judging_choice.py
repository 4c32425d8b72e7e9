"""Answers that `evaluate-model` has judged, and the rubrics that it accepts, without a flow run."""

from pathlib import Path

import pytest

from flows.judging import check_rubric, judge_job
from regrade.answers.local import LocalRepository
from regrade.jobs.job import EvaluationJob, JudgeSettings
from regrade.settings.errors import SettingsError
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


def test_a_rubric_for_pairs_needs_a_baseline_before_anything_is_generated() -> None:
    with pytest.raises(SettingsError, match="compares two answers: give the other side"):
        check_rubric(settings(rubric="pairwise"), ("gsm8k",))
    with pytest.raises(SettingsError, match="leave out `judge.baseline`"):
        check_rubric(settings(baseline="org/other"), ("simpleqa_verified",))
    check_rubric(settings(rubric="pairwise", baseline="org/other"), ("gsm8k",))
    check_rubric(settings(), ("simpleqa_verified",))
