"""Any row, with its columns filled or empty, comes back as it was: from a repository, and from an export for Inspect."""

import math
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from regrade.exchange.exporting.inspect_log import export_inspect
from regrade.exchange.exporting.scored import fresh_result
from regrade.records.columns import GENERATION_SCHEMA, TOKEN_COLUMNS
from regrade.records.tools import calls_text
from tests.builders import row
from tests.exchange.exporting.test_inspect import imported_from
from tests.stored import again, publish, score

TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
ENDS = st.sampled_from([-math.inf, math.inf])
"""Log-probabilities may be infinite; seconds are finite."""


def values(type_: "pa.DataType") -> st.SearchStrategy[Any]:
    """Return values of a column."""
    if isinstance(type_, pa.ListType):
        more = ENDS if pa.types.is_floating(type_.value_type) else st.nothing()
        return st.lists(values(type_.value_type) | more, max_size=3)
    if pa.types.is_floating(type_):
        return st.floats(0, 2**20, width=32)
    if pa.types.is_integer(type_):
        return st.integers(0, 2**31 - 1)
    return st.booleans() if pa.types.is_boolean(type_) else TEXTS


def rows(**fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Return two rows: one with a value in each column, one with nothing in those that may be empty."""
    full = {field.name: values(field.type) for field in GENERATION_SCHEMA}
    full |= {"repeat": st.integers(0, 3), "reasoning": TEXTS.filter(bool), **fixed}
    bare = {
        field.name: st.none() if field.nullable else full[field.name] for field in GENERATION_SCHEMA
    }
    keys = st.lists(TEXTS.filter(bool), min_size=2, max_size=2, unique=True)
    both = st.tuples(st.fixed_dictionaries(full), st.fixed_dictionaries(bare))
    return st.builds(
        lambda names, found: [
            row | {"sample_id": name} for row, name in zip(found, names, strict=True)
        ],
        keys,
        both,
    )


def differences(
    read: list[dict[str, Any]], rows: list[dict[str, Any]]
) -> list[tuple[str, Any, Any]]:
    """Return the columns whose values are others, with both values."""
    one, other = (sorted(found, key=itemgetter("sample_id")) for found in (read, rows))
    return [
        (name, row[name], read[name])
        for row, read in zip(other, one, strict=True)
        for name in GENERATION_SCHEMA.names
        if row[name] != read[name]
    ]


def stored(folder: str, found: list[dict[str, Any]]) -> AnswerSet:
    return publish(LocalRepository(Path(folder) / "answers"), found, repeats=4, scorers=("exact",))


@settings(max_examples=10, deadline=None)
@given(rows())
def test_stored_rows_are_read_as_they_were_published(found: list[dict[str, Any]]):
    with TemporaryDirectory() as folder:
        answers = stored(folder, found)
        read = [
            row for batch in answers.batches(GENERATION_SCHEMA.names) for row in batch.to_pylist()
        ]
    assert differences(read, found) == []


def in_a_log(
    *empty: str, **fixed: st.SearchStrategy[Any]
) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Return rows whose prompt is a text without images, with nothing in these columns."""
    nothing = dict.fromkeys((*empty, "images", "trajectory"), st.none())
    return rows(prompt_kind=st.just("text"), **nothing, **fixed)


ANSWERS = in_a_log(
    *("error", "error_permanent", "label_logprobs"),
    finish_reason=st.sampled_from(["stop", "length"]),
    tool_calls=st.just(calls_text([("add", '{"x": 1}')])),
)
CHOICES = in_a_log("text", "error", "error_permanent", "tool_calls")
FAILURES = in_a_log("text", "reasoning", "tool_calls")
LOST = (*TOKEN_COLUMNS, "finished_at")
"""Columns that an export leaves out: they are large, or of no use elsewhere."""


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(ANSWERS, CHOICES, FAILURES))
def test_rows_of_an_export_for_inspect_are_imported_as_they_were(found: list[dict[str, Any]]):
    with TemporaryDirectory() as folder:
        answers = stored(folder, [*found, row(0)])
        score(answers, "exact")
        result = fresh_result(again(answers), None)
        [log] = export_inspect(result, Path(folder) / "out", datetime.now(UTC))
        read = imported_from(log).table.to_pylist()
    kept = [row | dict.fromkeys(LOST) for row in [*found, row(0)]]
    assert differences(read, kept) == []
