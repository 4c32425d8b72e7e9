"""Rows of the scorer `lm_eval`; its numbers are compared with the harness in tests/lm_eval."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.result import Result
from regrade.benchmarks import open_benchmark
from regrade.lm_eval.answers import response_of
from regrade.lm_eval.headline import headlines
from regrade.lm_eval.scoring import QuestionScores
from regrade.processes.limited import Limits
from regrade.scorers import lm_eval
from regrade.scoring.score import score_answers
from regrade.settings import HarnessTasks, ScoringOptions
from regrade.settings.errors import SettingsError
from tests.lm_eval.rows import tasks_of_folders
from tests.lm_eval.stored import data_folder, harness_task, of_file, own_task, publish_task
from tests.stored import numbers, publish

ENDLESS = lm_eval.Trial.endless


@pytest.fixture(autouse=True)
def _index(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole index takes seconds to build, and a process that tries the answers as long to import lm_eval."""
    index = tasks_of_folders()
    monkeypatch.setattr("regrade.lm_eval.index._installed", lambda: index)
    monkeypatch.setattr(lm_eval.Trial, "endless", lambda *_: [])


def scored(tmp_path: Path, edit: Any) -> Result:
    folder = data_folder(tmp_path, "openai/gsm8k", ("main",))
    repository = LocalRepository(tmp_path / "answers")
    answers = publish_task(harness_task("gsm8k", folder), repository, tmp_path, edit)
    return score_answers(answers, "lm_eval")


def rows(scoring: Result) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = scoring.table.to_pylist()
    return found


def test_questions_whose_request_failed_are_missing_not_wrong(tmp_path: Path) -> None:
    def edit(row: Mapping[str, Any]) -> Mapping[str, Any]:
        target = row["target"]
        answer = {"text": f"So it is {target}"}
        return {"text": None, "error": "it failed"} if row["index"] < 3 else answer

    scoring = scored(tmp_path, edit)

    overall = scoring.file.summary.overall
    assert (overall.n, overall.failed, overall.accuracy) == (6, 3, 1.0)
    assert [row["outcome"] for row in rows(scoring)].count("failed") == 3


def test_a_thought_that_never_ends_is_unfinished_and_what_follows_a_thought_is_the_answer(
    tmp_path: Path,
) -> None:
    def edit(row: Mapping[str, Any]) -> Mapping[str, Any]:
        thought = "<think>Question: what?\n#### 5"
        ends = f"{thought}</think>\n{row['target']}\nQuestion: and then? #### 7"
        return {"text": thought if row["index"] == 0 else ends}

    scoring = scored(tmp_path, edit)

    assert [row["outcome"] for row in rows(scoring)] == ["unfinished"] + ["scored"] * 8
    assert [row["value"] for row in rows(scoring)] == [0.0] + [1.0] * 8


def test_an_answer_in_which_the_filter_finds_nothing_is_unparsed(tmp_path: Path) -> None:
    scoring = scored(tmp_path, lambda row: {"text": "I do not know"})

    assert {row["outcome"] for row in rows(scoring)} == {"unparsed"}
    assert scoring.file.summary.metrics["exact_match,strict-match"].value == 0


def test_an_answer_at_which_a_filter_never_ends_costs_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own = tmp_path / "own"
    own_task(
        own,
        "my_task",
        of_file(tmp_path / "q.jsonl"),
        "generation_kwargs: {until: [X], do_sample: false}",
        "filter_list: [{name: it, filter: [{function: regex, regex_pattern: '((?:7+)+)!'}, {function: take_first}]}]",
        target="a",
    )
    questions = [f'{{"q": "{n}?", "a": "{n}7"}}\n' for n in range(5)]
    (tmp_path / "q.jsonl").write_text("".join(questions))
    answers = publish_task(
        open_benchmark("lm_eval:my_task", tasks=HarnessTasks(path=str(own))),
        LocalRepository(tmp_path / "answers"),
        tmp_path,
        lambda row: {"text": "7" * 60 if row["index"] == 3 else f"{row['target']}! so"},
    )
    monkeypatch.setattr(lm_eval.Trial, "endless", ENDLESS)
    monkeypatch.setattr(lm_eval, "LIMITS", Limits(cpu_seconds=1, seconds=60, memory=2 << 30))

    scored = score_answers(answers, "lm_eval", options=ScoringOptions(lm_eval_path=str(own)))

    overall = scored.file.summary.overall
    assert (overall.n, overall.failed) == (4, 1)
    assert [row["outcome"] == "failed" for row in rows(scored)] == [n == 3 for n in range(5)]
    assert "1 of 5 questions are not scored, because task 'my_task' takes more than" in caplog.text


def test_answers_to_other_benchmarks_are_refused(tmp_path: Path) -> None:
    answers = publish(LocalRepository(tmp_path / "answers"), numbers(0, 3))

    says = "scores answers to benchmarks 'lm_eval:TASK', not to 'sums'"
    with pytest.raises(SettingsError, match=says):
        score_answers(answers, "lm_eval")


@pytest.mark.parametrize(
    ("text", "response"),
    [
        ("four\n\nQ: more", "four"),
        ("<think>a\n\nQ: b</think> four\n\nQ: more", "four"),
        ("<think>a</think>b</think>\n five", "five"),
        ("<think>never", None),
        ("", ""),
    ],
)
def test_a_response_is_what_the_harness_would_have_got(text: str, response: str | None) -> None:
    assert response_of(text, ["\n\n", "Q:"], reasoning_open=False) == response


def test_a_text_without_an_answer_part_after_an_open_thought_is_none() -> None:
    assert response_of("still thinking", [], reasoning_open=True) is None
    assert response_of("so.</think>42", [], reasoning_open=True) == "42"


def _scores(**metrics: Any) -> list[QuestionScores]:
    return [QuestionScores(0, {f"{name},none": value for name, value in metrics.items()}, {})]


def test_the_headline_is_the_first_share_of_right_answers() -> None:
    found = _scores(perplexity=-7.0, acc=1, acc_norm=0.0)
    means = ["acc,none", "acc_norm,none"]

    assert headlines("mine", found, means, {"acc": True}) == {0: "acc,none"}
    assert headlines("hellaswag", found, means, {"acc": True}) == {0: "acc_norm,none"}
    drop = headlines("drop", _scores(em=0, f1=0.5), ["em,none", "f1,none"], {})
    assert drop == {0: "f1,none"}
    assert headlines("mine", _scores(score=40.0), ["score,none"], {"score": True}) == {}
    assert headlines("mine", _scores(bias=0.5), ["bias,none"], {"bias": False}) == {}


def test_the_extracted_choice_is_the_one_that_the_headline_takes(tmp_path: Path) -> None:
    folder = data_folder(tmp_path, "Rowan/hellaswag", (None,))
    repository = LocalRepository(tmp_path / "answers")
    answers = publish_task(
        harness_task("hellaswag", folder),
        repository,
        tmp_path,
        # By length, the last of ["breaks them gently", "sings twice", "flies to the moon", "naïvely eats"] is the likeliest.
        lambda _: {"label_logprobs": [-18.0, -9.9, -17.0, -10.0]},
    )

    scoring = score_answers(answers, "lm_eval")

    assert {row["extracted"] for row in rows(scoring)} == {"naïvely eats"}
    right = [row["value"] == 1 for row in rows(scoring)]
    targets = [row["target"] for b in answers.batches(["target"]) for row in b.to_pylist()]
    assert right == [target == "naïvely eats" for target in targets]
