import json
from typing import Any, get_args

import pyarrow as pa
import pytest

from regrade.records.columns import GENERATION_SCHEMA, SCORE_SCHEMA
from regrade.scorers import load_scorer, scorer_names
from regrade.scorers.base import SHARED_COLUMNS, TargetKind
from regrade.scoring.source_hash import module_codes, source_hash
from regrade.settings.errors import UnknownNameError
from tests.scorers.batches import any_target, batch_score, generations


@pytest.mark.parametrize("name", scorer_names())
def test_a_scorer_says_what_it_is(name: str) -> None:
    scorer = load_scorer(name)

    assert scorer.name == name
    assert scorer.version >= 1
    assert scorer.description.endswith(".")
    assert scorer.unparsed.endswith(".")
    assert scorer.targets in get_args(TargetKind)
    assert set(scorer.columns) <= set(GENERATION_SCHEMA.names) - set(SHARED_COLUMNS)


OF_BATCHES = [name for name in scorer_names() if hasattr(load_scorer(name), "score")]
"""Scorers that need no session; the others have tests of their own."""


def batch_for(name: str, **changes: Any) -> pa.RecordBatch:
    target, more = any_target(name), {"doc": json.dumps({"random_string_to_prepend": "A"})}
    if name == "tool_calls":
        target, more = "[]", {"doc": '{"tools": []}', "tool_calls": "[]"}
    texts = ["1", "A", None, ""]
    return generations(texts, target, choices=["x", "y"], subset="part", **more, **changes)


@pytest.mark.parametrize("name", OF_BATCHES)
def test_scores_have_their_schema_and_a_row_for_each_generation(name: str) -> None:
    batch = batch_for(name)

    scores = batch_score(name)(batch)

    assert scores.schema.equals(SCORE_SCHEMA, check_metadata=True)
    assert scores.select(["sample_id", "repeat", "subset"]).to_pylist() == (
        batch.select(["sample_id", "repeat", "subset"]).to_pylist()
    )
    scores.validate(full=True)
    assert batch_score(name)(batch.slice(2, 2)).equals(scores.slice(2, 2))
    assert batch_score(name)(batch.slice(4)).num_rows == 0


READ = ("outcome", "value", "extracted", "start", "end")


@pytest.mark.parametrize("name", OF_BATCHES)
def test_no_text_is_unparsed_and_wrong_and_an_error_is_missing(name: str) -> None:
    scores = batch_score(name)(batch_for(name)).select(READ).to_pylist()
    failed = batch_score(name)(batch_for(name, error="refused")).select(READ).to_pylist()

    if name != "tool_calls":  # no call may be the right answer
        assert {*scores[2].values(), *scores[3].values()} == {"unparsed", 0.0, None}
    assert failed == [dict.fromkeys(READ) | {"outcome": "failed"}] * 4


def test_an_unknown_name_is_refused_with_a_hint() -> None:
    with pytest.raises(UnknownNameError, match="Unknown scorer 'numbr'. Did you mean 'number'"):
        load_scorer("numbr")
    with pytest.raises(UnknownNameError):
        source_hash("numbr")


def test_a_hash_is_over_the_scorer_and_what_it_is_made_of() -> None:
    found = module_codes("regrade.scorers.choice_logprob", ("regrade.scorers",))

    parts = "base choice_logprob choices columns continuing pieces wording"
    assert {name.rpartition(".")[2] for name in found} == {*parts.split()}
