"""Answers whose reasoning never ended are neither scored nor unparsed."""

import math
from typing import Any

import pyarrow as pa
import pytest

from regrade.records.columns import GENERATION_SCHEMA, SCORING_SCHEMA
from regrade.scorers import load_scorer
from regrade.scorers.base import PROMPT_FORMAT
from regrade.scoring.batches import score_batch
from regrade.settings.errors import SandboxError
from regrade.stats.metrics import summarise
from tests.builders import row


def chats(*rows: dict[str, Any]) -> pa.RecordBatch:
    batch = pa.RecordBatch.from_pylist(list(rows), schema=GENERATION_SCHEMA)
    return batch.append_column(PROMPT_FORMAT, pa.array(["chat"] * len(rows)))


def scored(name: str, *rows: dict[str, Any]) -> pa.RecordBatch:
    scorer = load_scorer(name)
    return score_batch(scorer.score, scorer.columns, chats(*rows))


def outcome(scorer: str = "number", **changes: Any) -> str:
    scores = scored(scorer, row(0) | changes)
    assert scores.schema.equals(SCORING_SCHEMA)
    return str(scores["outcome"][0].as_py())


@pytest.mark.parametrize("scorer", ["number", "number_strict", "exact", "text"])
def test_a_thought_that_never_ended_is_unfinished(scorer: str):
    apart = {"text": "", "reasoning": "is it 7? or", "reasoning_open": True}
    in_text = {"text": "<think>is it 7? or", "reasoning_open": False}
    opened_by_the_prompt = {"text": "is it 7? or", "reasoning_open": True}

    for changes in (apart, in_text, opened_by_the_prompt):
        assert outcome(scorer, target="7", **changes) == "unfinished"


def test_an_answer_after_a_thought_is_read_or_unparsed():
    assert outcome(text="It is 7.", reasoning="hm", reasoning_open=False, target="7") == "scored"
    assert outcome(text="Who knows?", reasoning="hm", reasoning_open=False) == "unparsed"
    assert outcome(text="hm</think> Who knows?", reasoning_open=True) == "unparsed"
    assert outcome(text="", reasoning="hm", reasoning_open=False) == "unparsed"


@pytest.mark.parametrize("scorer", ["number", "exact", "text"])
def test_a_row_without_an_answer_is_missing_and_an_empty_answer_is_wrong(scorer: str):
    assert outcome(scorer, text=None, target="7") == "failed"
    assert outcome(scorer, text="", target="7") == "unparsed"


@pytest.mark.parametrize(
    ("logprobs", "expected"),
    [
        ([-math.inf, -1.0], "scored"),
        ([None, -1.0], "failed"),  # as earlier versions stored minus infinity
        (None, "failed"),
    ],
)
def test_ranked_choices_are_missing_if_a_log_probability_is_and_not_if_it_is_minus_infinity(
    logprobs: list[float | None] | None, expected: str
):
    ranked = {"choices": ["A", "B"], "target": "B", "text": None, "label_logprobs": logprobs}
    assert outcome("choice_logprob", **ranked) == expected


def test_unfinished_answers_count_as_wrong_and_not_as_unparsed():
    rows = [
        row(0),
        row(1) | {"text": "", "reasoning": "hm", "reasoning_open": True},
        row(2) | {"text": "Who knows?"},
        row(3) | {"text": None, "error": "503"},
    ]
    scores = scored("number", *rows)

    metrics = summarise(pa.Table.from_batches([scores]), {}).overall

    assert (metrics.n, metrics.unparsed, metrics.unfinished, metrics.failed) == (3, 1, 1, 1)
    assert metrics.accuracy == pytest.approx(1 / 3)
    assert metrics.unfinished_rate == 0.25


def test_an_answer_at_which_a_scorer_fails_costs_its_row(caplog: pytest.LogCaptureFixture):
    number = load_scorer("number")

    def score(batch: pa.RecordBatch) -> pa.RecordBatch:
        if "hostile" in batch["text"].to_pylist():
            raise RecursionError("maximum depth")
        return number.score(batch)

    batch = chats(
        *(row(n) | {"text": "hostile" if n in (2, 3, 4) else "It is 7."} for n in range(8))
    )
    scores = score_batch(score, number.columns, batch)

    assert scores.schema.equals(SCORING_SCHEMA)
    assert scores["sample_id"].equals(batch["sample_id"])
    expected = ["failed" if n in (2, 3, 4) else "scored" for n in range(8)]
    assert scores["outcome"].to_pylist() == expected
    assert scores["value"].is_null().to_pylist() == [outcome == "failed" for outcome in expected]
    [line] = caplog.messages
    assert line.startswith("3 of 8 answers are not scored")
    assert f"sample '{batch['sample_id'][2].as_py()}': RecursionError: maximum depth" in line
    with pytest.raises(RecursionError):  # one that sees all rows at once would give other scores
        score_batch(score, number.columns, batch, "subset")


def test_a_scorer_that_fails_at_all_answers_ends_the_scoring():
    def score(batch: pa.RecordBatch) -> pa.RecordBatch:
        raise OSError("no process")

    with pytest.raises(OSError, match="no process"):
        score_batch(score, (), chats(*(row(n) for n in range(20))))


def test_a_few_last_answers_at_which_a_scorer_fails_do_not_end_it():
    def score(batch: pa.RecordBatch) -> pa.RecordBatch:
        raise RecursionError("maximum depth")

    scores = score_batch(score, (), chats(row(0), row(1)))

    assert scores["outcome"].to_pylist() == ["failed", "failed"]


def test_a_sandbox_that_does_not_start_ends_the_scoring_at_once():
    asked = []

    def score(batch: pa.RecordBatch) -> pa.RecordBatch:
        asked.append(len(batch))
        raise SandboxError("A sandbox did not start.")

    with pytest.raises(SandboxError, match="did not start"):
        score_batch(score, (), chats(row(0), row(1), row(2)))
    assert asked == [3]
