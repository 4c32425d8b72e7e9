"""A judge that runs again is asked only what is new, also behind a server that does not tell which weights it serves."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.sets import list_sets
from regrade.comparing.likeness import judged_differences
from regrade.judging.panel import name_of, panel, panels_at
from regrade.settings import SamplingSettings
from regrade.settings.errors import SettingsError
from tests.judging.running import run_judge, scored, verdicts
from tests.judging.scripted import ScriptedJudge, by_reference, candidates

FROZEN = Path(__file__).parent.parent / "frozen" / "format-3" / "judged-by-untold"


def test_a_run_again_asks_only_what_failed_whatever_the_server_tells(tmp_path: Path):
    candidates(tmp_path / "answers")
    judge = ScriptedJudge(by_reference)
    judge.closed = {"What is 2?", "What is 5?"}
    first = run_judge(judge, tmp_path, rubric="correct", revision=None)
    assert (first.manifest.failed, len(judge.bodies)) == (2, 7)

    judge.closed = {"What is 5?"}
    second = run_judge(judge, tmp_path, rubric="correct", revision=None)
    judge.closed = set()
    third = run_judge(judge, tmp_path, rubric="correct", revision=None)

    assert len(judge.bodies) == 9
    assert third.manifest.answer_set_id == second.manifest.answer_set_id
    assert third.manifest.answer_set_id == first.manifest.answer_set_id
    assert (third.manifest.failed, scored(third).summary.overall.n) == (0, 9)


def test_runs_of_an_earlier_version_are_one_judge_and_are_continued(tmp_path: Path):
    shutil.copytree(FROZEN, tmp_path / "answers")
    repository = LocalRepository(tmp_path / "answers")
    judge = ScriptedJudge(by_reference)
    stored = [s for s in list_sets(repository, str(repository.head())) if "judge" in s.folder]
    assert sorted(s.manifest.failed for s in stored) == [1, 2]
    assert {name_of(judge_set) for judge_set in stored} == {"judge-7b@unknown"}
    with pytest.raises(SettingsError, match="Two runs are of the same judge"):
        panel(stored)
    assert panels_at(repository, str(repository.head()), stored) == []
    assert judged_differences(*stored) is not None  # not "judged by two judges"

    whole = run_judge(judge, tmp_path, rubric="correct", revision=None)

    assert ["What is 1?" in prompt for prompt in judge.prompts] == [True]
    assert whole.manifest.answer_set_id in {s.manifest.answer_set_id for s in stored}
    assert scored(whole).summary.overall.n == 6


def test_more_tokens_ask_only_what_was_cut_off(tmp_path: Path):
    candidates(tmp_path / "answers", [f"It is {n}." for n in range(1, 6)])
    limits: list[int] = []

    def long_winded(texts: dict[str, str]) -> str | dict[str, Any]:
        if texts["question"] in ("What is 2?", "What is 4?") and limits[-1] < 900:
            return {"message": {"content": '{"explanation": "It'}, "finish_reason": "length"}
        return by_reference(texts)

    judge = ScriptedJudge(long_winded)

    def run(tokens: int) -> list[str]:
        limits.append(tokens)
        asked = len(judge.bodies)
        found = run_judge(
            judge, tmp_path, rubric="correct", sampling=SamplingSettings(max_tokens=tokens)
        )
        assert [v.outcome for v in verdicts(found)].count("truncated") == (2 if tokens < 900 else 0)
        return sorted(prompt[prompt.index("What is") :][:10] for prompt in judge.prompts[asked:])

    assert len(run(800)) == 5
    assert run(900) == ["What is 2?", "What is 4?"]
    # What fewer tokens would have cut off is not known: all are asked.
    assert len(run(700)) == 5


@pytest.mark.parametrize("pairs", [False, True])
def test_more_verdicts_of_each_answer_ask_only_the_new_ones(tmp_path: Path, pairs: bool):
    candidates(tmp_path / "answers", ["It is 1.", "It is 5."], repeats=2)
    given: dict[str, Any] = {"rubric": "correct"}
    if pairs:
        candidates(tmp_path / "answers", ["one", "two"], repeats=2, model="org/base")
        given = {"rubric": "pairwise", "baseline": "org/base", "answer_sets": ("org/tiny",)}
    first = 8 if pairs else 4
    count = iter(range(100))

    def numbered(texts: dict[str, str]) -> str:
        verdict = "tie" if pairs else "A"
        return json.dumps({"explanation": f"Number {next(count)}.", "verdict": verdict})

    judge = ScriptedJudge(numbered)
    run_judge(judge, tmp_path, **given)
    assert len(judge.bodies) == first

    thrice = run_judge(judge, tmp_path, judge_repeats=3, **given)
    assert len(judge.bodies) == 3 * first
    once = run_judge(judge, tmp_path, judge_repeats=2, **given)
    assert len(judge.bodies) == 3 * first

    assert [v.judge_repeat for v in verdicts(thrice)].count(2) == first
    assert len(verdicts(once)) == 2 * first
    rows = [row for batch in thrice.batches(("repeat", "text")) for row in batch.to_pylist()]
    parts = 2 if pairs else 1
    texts = {json.loads(row["text"])["explanation"] for row in rows}
    assert len(texts) == 3 * first  # none was taken twice
    kept = {
        (row["repeat"] // parts) % 3
        for row in rows
        if int(json.loads(row["text"])["explanation"][7:-1]) < first
    }
    assert kept == {0}


def test_what_a_judge_declined_is_not_asked_again_for_more_verdicts(tmp_path: Path):
    candidates(tmp_path / "answers", ["It is 1.", "It is 5."])

    def declines(texts: dict[str, str]) -> str | dict[str, Any]:
        if texts["question"] == "What is 1?":
            return {"message": {"content": None, "refusal": "No."}}
        return by_reference(texts)

    judge = ScriptedJudge(declines)
    run_judge(judge, tmp_path, rubric="correct")
    run_judge(judge, tmp_path, rubric="correct", judge_repeats=2)

    assert len(judge.bodies) == 4
