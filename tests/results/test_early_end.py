"""Questions, tokens and seconds that an early verdict saved."""

from datetime import UTC, datetime
from typing import Any

import pytest

from regrade.answers.manifest import Shard, Stopped
from regrade.results.results import EarlyEnd
from tests.builders import description, session

STOPPED = Stopped(verdict="regression", questions=50, of=400, baseline="b" * 16)


def early(rate: float | None, **counts: Any) -> EarlyEnd:
    """The savings of a set that was stopped after 52 of 400 rows, with 3,640 tokens in 4.74 seconds."""
    made = session()
    fields = {"rows": 52, "session": made.id, "seconds": 4.74, "completion_tokens": 3_640}
    name, sha256 = "part-00000-00000000.parquet", "0" * 64
    shard = Shard(name=name, sha256=sha256, bytes=1, **fields | counts)
    when = datetime(2026, 1, 1, tzinfo=UTC)
    return EarlyEnd.of_set(description(400).manifest((shard,), (made,), when), STOPPED, rate)


def test_seconds_are_saved_at_the_rate_of_the_full_engine_and_not_of_its_beginning():
    found = early(rate=4_000.0)

    assert (found.saved_questions, found.saved_tokens) == (348, 24_360)
    assert found.saved_seconds == pytest.approx(6.09)
    assert (
        "after 50 of 400: regression. 52 were asked. Saved: 348 questions, about 24,360 tokens and 6 s. The same"
        in found.saved
    )


@pytest.mark.parametrize("found", [early(None), early(4_000.0, label_methods={"per_choice": 52})])
def test_without_a_rate_of_its_tokens_no_seconds_are_said(found: EarlyEnd):
    assert found.saved_seconds is None
    assert "Saved: 348 questions, about 24,360 tokens. The same" in found.saved
