"""Scorers that are opened before they score: progress, whole subsets, their environment, other values and results."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import orjson
import pyarrow as pa
import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.result import Result
from regrade.answers.verify import verify
from regrade.records.columns import SCORING_SCHEMA
from regrade.scorers.sessions import BatchScore, ScoringContext, SessionScorer, Unit
from regrade.scoring import score as scoring
from regrade.scoring.score import PIECE_ROWS, is_stale, score_answers
from regrade.settings import SamplingParams, ScoringOptions
from regrade.settings.errors import SettingsError
from regrade.stats.named import Aggregate
from tests.builders import row
from tests.stored import again, publish, score


class Length:
    """Share of the longest answer of the batch; answers of one letter cannot be decided."""

    name, version, description, unparsed, targets = "number", 1, "The length.", "None.", "text"
    columns = ("text", "target")
    unit: Unit = "rows"
    votes = True
    is_open = False

    def environment(self, options: ScoringOptions) -> Mapping[str, str]:
        return {"sandbox": options.sandbox, "ruler": "1.0"}

    @contextmanager
    def session(self, context: ScoringContext) -> Iterator[BatchScore]:
        assert context.specification.benchmark.name == "sums"
        self.is_open = True
        yield self._score
        self.is_open = False

    def _score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        assert self.is_open
        longest = max(len(text) for text in batch["text"].to_pylist())
        rows = [
            {
                **{name: row[name] for name in ("sample_id", "repeat", "subset")},
                "value": len(row["text"]) / longest if len(row["text"]) > 1 else 0.0,
                "outcome": "scored" if len(row["text"]) > 1 else "timeout",
                "truncated": False,
                "metrics": orjson.dumps({"letters": len(row["text"])}).decode(),
            }
            for row in batch.to_pylist()
        ]
        return pa.RecordBatch.from_pylist(rows, schema=SCORING_SCHEMA)

    def aggregates(self, scores: pa.Table, context: ScoringContext) -> Sequence[Aggregate]:
        return (Aggregate(subset="", name="rows", value=float(len(scores)), n=len(scores)),)


class BySubset(Length):
    unit: Unit = "subset"


@pytest.fixture(params=[Length, BySubset])
def scorer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Length:
    made: Length = request.param()
    assert isinstance(made, SessionScorer)
    monkeypatch.setattr(scoring, "load_scorer", lambda _: made)
    return made


def answers_of(repository: LocalRepository, *texts: str) -> Result:
    rows = [row(number, text) for number, text in enumerate(texts)]
    return score_answers(publish(repository, rows), "number")


def test_rows_keep_the_order_of_the_answers_whatever_is_scored_at_once(
    repository: LocalRepository, scorer: Length
):
    scored = answers_of(repository, "aaaa", "bb", "aa", "bb")

    by_subset = scorer.unit == "subset"  # of the subsets `even` and `odd`
    assert scored.table["value"].to_pylist() == [
        1,
        1 if by_subset else 0.5,
        0.5,
        1 if by_subset else 0.5,
    ]
    assert scored.table["sample_id"].to_pylist() == [f"sample-{n:05d}" for n in range(4)]
    assert not scorer.is_open


def test_progress_reaches_the_number_of_rows(repository: LocalRepository, scorer: Length):
    rows = [row(number, "abc") for number in range(2 * PIECE_ROWS + 1)]
    seen: list[tuple[int, int]] = []

    score_answers(publish(repository, rows), "number", on_scored=lambda *at: seen.append(at))

    assert seen[-1] == (len(rows), len(rows))
    assert len(seen) == (3 if scorer.unit == "rows" else 2)


def test_an_answer_without_a_result_is_a_timeout_that_counts_as_wrong(
    repository: LocalRepository, scorer: Length
):
    overall = answers_of(repository, "aaaa", "b", "aaaa", "bb").file.summary.overall

    assert (overall.n, overall.timeouts, overall.timeout_rate, overall.unparsed) == (4, 1, 0.25, 0)
    assert overall.failed == 0


def test_other_values_have_a_mean_with_its_error(repository: LocalRepository, scorer: Length):
    scored = answers_of(repository, "aaaa", "bb", "aa", "bbbb")

    letters = scored.file.summary.metrics["letters"]
    assert (letters.value, letters.n) == (3.0, 4)
    assert letters.stderr == pytest.approx(1.1547 / 2, abs=1e-4)
    assert [(result.name, result.value) for result in scored.file.other_results] == [
        ("letters", 3.0),
        ("rows", 4.0),
    ]


def test_another_environment_is_another_scoring_and_neither_is_stale(
    repository: LocalRepository, scorer: Length
):
    answers = publish(repository, [row(0, "ab"), row(1, "cd")])
    first = score(answers)

    same = score_answers(again(answers), "number")
    other = score_answers(again(answers), "number", options=ScoringOptions(sandbox="landlock"))

    assert same.table is None
    assert other.table is not None
    assert other.file.environment == {"sandbox": "landlock", "ruler": "1.0"}
    assert other.file.label != first.label
    assert other.file.code_label == first.code_label
    assert not is_stale(first, again(answers))


def test_a_stored_scoring_with_other_values_is_verified(
    repository: LocalRepository, scorer: Length
):
    answers = publish(repository, [row(0, "ab"), row(1, "cd")])
    file = score(answers)

    found = verify(repository, repository.head() or "", None)

    assert (found.scorings, found.problems) == (1, [])
    stored = again(answers).score_table(file)
    assert stored["metrics"].to_pylist() == ['{"letters":2}', '{"letters":2}']


def test_a_measured_answer_has_no_value_and_is_not_missing(
    repository: LocalRepository, monkeypatch: pytest.MonkeyPatch
):
    class Perplexity(Length):
        def _score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
            rows = super()._score(batch).to_pylist()
            changed = [row | {"value": None, "outcome": "measured"} for row in rows]
            return pa.RecordBatch.from_pylist(changed, schema=SCORING_SCHEMA)

    monkeypatch.setattr(scoring, "load_scorer", lambda _: Perplexity())

    summary = answers_of(repository, "aaaa", "bb").file.summary

    assert (summary.overall.n, summary.overall.accuracy, summary.overall.failed) == (0, None, 0)
    assert summary.metrics["letters"].value == 3


def test_a_scorer_that_cannot_run_here_is_refused_before_anything_is_read(
    repository: LocalRepository, scorer: Length, monkeypatch: pytest.MonkeyPatch
):
    def missing(options: ScoringOptions) -> Mapping[str, str]:
        raise SettingsError("There is no ruler. Buy one.")

    monkeypatch.setattr(scorer, "environment", missing)

    with pytest.raises(SettingsError, match="no ruler"):
        answers_of(repository, "aaaa")


@pytest.mark.parametrize("votes", [True, False])
def test_only_a_scorer_whose_values_are_answers_has_a_majority_that_verifies(
    repository: LocalRepository, monkeypatch: pytest.MonkeyPatch, votes: bool
):
    scorer = Length()
    scorer.votes = votes
    monkeypatch.setattr(scoring, "load_scorer", lambda _: scorer)
    rows = [row(n, "a" * (n + 2), repeat=repeat) for n in range(3) for repeat in range(3)]
    sampling = SamplingParams(temperature=0.5)
    answers = publish(repository, rows, repeats=3, sampling=sampling)

    summary = score(answers).summary

    assert (summary.majority_samples is not None) is votes
    assert summary.pass_at
    assert verify(repository, repository.head() or "", None).problems == []
