"""The scores that a comparison takes: stored ones of one environment before any that it would have to compute."""

from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.publishing import publish_scores
from regrade.answers.sets import AnswerSet
from regrade.comparing.pairing import pair, score_sides
from regrade.scoring import score as scoring
from regrade.scoring.score import score_answers
from regrade.settings import SamplingParams, SandboxName, ScoringOptions
from tests.builders import row
from tests.scoring.test_session_scorers import Length
from tests.stored import again, publish


class CountedLength(Length):
    """Counts how often it was opened to score answers."""

    sessions = 0

    def session(self, context):
        self.sessions += 1
        return super().session(context)


@pytest.fixture
def scorer(monkeypatch: pytest.MonkeyPatch) -> CountedLength:
    made = CountedLength()
    monkeypatch.setattr(scoring, "load_scorer", lambda _: made)
    return made


def stored(folder: Path, *sandboxes: SandboxName) -> AnswerSet:
    """Publish answers, and their scorings in sandboxes."""
    repository = LocalRepository(folder)
    answers = publish(repository, [row(0, "ab"), row(1, "cdef")])
    for sandbox in sandboxes:
        one = score_answers(answers, "number", options=ScoringOptions(sandbox=sandbox))
        publish_scores(repository, [(answers, one.file, one.table)])
    return again(answers)


def test_the_environment_in_which_both_sides_were_scored_is_taken(
    tmp_path: Path, scorer: CountedLength
):
    base = stored(tmp_path / "base", "bwrap", "landlock")
    candidate = stored(tmp_path / "candidate", "landlock")
    scorer.sessions = 0

    first, second = score_sides(base, candidate, "number")

    assert scorer.sessions == 0
    assert first.scores["value"].to_pylist() == second.scores["value"].to_pylist() == [0.5, 1.0]


def test_both_sides_are_scored_here_where_their_scorings_have_no_environment_in_common(
    tmp_path: Path, scorer: CountedLength
):
    base = stored(tmp_path / "base", "bwrap")
    candidate = stored(tmp_path / "candidate", "landlock")
    scorer.sessions = 0

    score_sides(base, candidate, "number")

    assert scorer.sessions == 1  # the base's scoring is in this machine's environment, the default


def test_a_side_without_a_scoring_is_scored_in_the_sandbox_that_is_asked_for(
    tmp_path: Path, scorer: CountedLength
):
    base = stored(tmp_path / "base", "bwrap")
    candidate = stored(tmp_path / "candidate", "landlock")
    scorer.sessions = 0

    first, second = score_sides(base, candidate, "number", ScoringOptions(sandbox="landlock"))

    assert scorer.sessions == 1
    assert first.file.environment == second.file.environment
    assert first.file.environment["sandbox"] == "landlock"


def test_the_same_grades_in_another_order_are_no_change(tmp_path: Path, scorer: CountedLength):
    sampling = SamplingParams(temperature=1.0)

    def side(model: str, *letters: int) -> AnswerSet:
        texts = [(0, "x" * 10, 3), *((1, "x" * n, repeat) for repeat, n in enumerate(letters))]
        rows = [row(number, text, repeat=repeat) for number, text, repeat in texts]
        return publish(LocalRepository(tmp_path), rows, model=model, repeats=4, sampling=sampling)

    pairs = pair(*score_sides(side("one", 2, 4, 6), side("two", 6, 4, 2), "number"))

    assert pairs.base[1] != pairs.candidate[1]  # by rounding
    assert pairs.change.tolist() == [0.0, 0.0]


def test_ids_that_differ_by_a_nul_at_their_end_are_two_questions(tmp_path: Path):
    repository = LocalRepository(tmp_path)
    rows = [row(0, "#### 0", sample_id="a"), row(1, "no number", sample_id="a\0")]
    sides = score_sides(
        publish(repository, rows, model="one"), publish(repository, rows, model="two"), "number"
    )

    pairs = pair(*sides)

    assert pairs.base_id.tolist() == ["a", "a\0"]
    assert pairs.base.tolist() == [1.0, 0.0]
