"""Commands that are printed after a result: they fit what was done, and are ones that regrade accepts."""

import re
import shlex
from datetime import date
from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.cli.commands import command_line
from regrade.cli.terminal import print_next_steps
from regrade.jobs.job import ScoringJob
from regrade.results.results import Evaluation, score_result
from regrade.scoring.score import score_answers
from tests.stored import numbers, publish, result_of


def evaluation(answers: Path, *, scored: bool) -> Evaluation:
    stored = publish(LocalRepository(answers), numbers(0, 3))
    scores = [score_result(score_answers(stored, "number"), None)] if scored else []
    result = result_of(stored, *scores, generated=3)
    return Evaluation(answer_sets=(result,), repository=str(answers))


def steps(
    found: Evaluation, capfd: pytest.CaptureFixture[str], job: ScoringJob | None = None
) -> dict[str, list[str]]:
    """Words of each regrade command, by its purpose."""
    print_next_steps(found, job)
    lines = re.findall(r"^(\S.*?) {2,}\S*regrade (.*)$", capfd.readouterr().err, re.MULTILINE)
    return {purpose: shlex.split(command) for purpose, command in lines}


def test_after_scoring_wrong_answers_are_read_here_or_in_a_browser(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    found = evaluation(tmp_path / "my answers", scored=True)
    shown, where = steps(found, capfd), ["--answers", found.repository]
    set_id = found.answer_sets[0].answer_set_id
    assert shown == {
        "read wrong answers": ["show", set_id, *where, "--wrong"],
        "read in a browser": ["view", found.repository, set_id],
    }
    for words in shown.values():
        command_line().parse_args(words, exit_on_error=False, print_error=False)


def test_of_several_answer_sets_the_steps_are_about_one_that_this_run_scored(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    found = evaluation(tmp_path / "answers", scored=True)
    older = found.answer_sets[0].model_copy(update={"generated": 0})
    new = older.model_copy(update={"answer_set_id": "f" * 16, "seconds": {"score": 0.1}})
    shown = steps(found.model_copy(update={"answer_sets": (older, new, older)}), capfd)
    assert shown["read wrong answers"][:2] == ["show", new.answer_set_id]


def test_after_generating_answers_are_read_and_scored(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    found = evaluation(tmp_path / "answers", scored=False)
    set_id = found.answer_sets[0].answer_set_id
    assert steps(found, capfd) == {"read the answers": ["show", set_id], "score them": ["score"]}


@pytest.mark.parametrize(
    ("scorer", "purpose", "last"),
    [
        ("my scorers/s.py:close", "after changing it", []),
        ("exact", "score them again", ["--force"]),
    ],
    ids=["of a file", "installed"],
)
def test_after_one_scorer_was_used_all_steps_are_about_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], scorer: str, purpose: str, last: list[str]
):
    found = evaluation(tmp_path / "answers", scored=True)
    (one,) = found.answer_sets
    used = one.scores[0].model_copy(update={"scorer": "close"})
    found = found.model_copy(update={"answer_sets": (one.model_copy(update={"scores": (used,)}),)})
    set_id, where = one.answer_set_id, ["--answers", found.repository]
    since = date(2026, 1, 2)
    job = ScoringJob(scorer=scorer, model="org/tiny", since=since, answers=found.repository)
    shown, chosen = steps(found, capfd, job), ["--model", "org/tiny", "--since", str(since)]
    assert shown == {
        "read wrong answers": ["show", set_id, *where, "--scorer", scorer, "--wrong"],
        purpose: ["score", *where, *chosen, "--scorer", scorer, *last],
    }
    for words in shown.values():
        command_line().parse_args(words, exit_on_error=False, print_error=False)


def test_after_a_judge_its_verdicts_are_checked(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    found = evaluation(tmp_path / "answers", scored=True)
    (one,) = found.answer_sets
    judged = one.model_copy(update={"judged": "org/tiny"})
    shown = steps(found.model_copy(update={"answer_sets": (judged,)}), capfd)
    assert [*shown] == ["read wrong answers", "check the judge"]
    assert shown["check the judge"][:2] == ["label", one.answer_set_id]
