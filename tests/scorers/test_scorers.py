import json
from typing import get_args

import pytest

from regrade.records.columns import GENERATION_SCHEMA, SCORE_SCHEMA
from regrade.scorers import load_scorer, scorer_names
from regrade.scorers.base import SHARED_COLUMNS, TargetKind
from regrade.scoring.source_hash import module_codes, source_hash
from regrade.settings.errors import UnknownNameError
from tests.scorers.batches import batch_score, generations


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


@pytest.mark.parametrize("name", OF_BATCHES)
def test_scores_have_their_schema_and_a_row_for_each_generation(name: str) -> None:
    target = "1" if name.startswith("number") else "A"
    changes = {"doc": json.dumps({"random_string_to_prepend": "A"})}
    if name == "tool_calls":
        target, changes = "[]", {"doc": '{"tools": []}', "tool_calls": "[]"}
    batch = generations(["1", "A", None, ""], target, choices=["x", "y"], subset="part", **changes)

    scores = batch_score(name)(batch)

    assert scores.schema.equals(SCORE_SCHEMA, check_metadata=True)
    assert scores.select(["sample_id", "repeat", "subset"]).to_pylist() == (
        batch.select(["sample_id", "repeat", "subset"]).to_pylist()
    )
    scores.validate(full=True)


def test_an_unknown_name_is_refused_with_a_hint() -> None:
    with pytest.raises(UnknownNameError, match="Unknown scorer 'numbr'. Did you mean 'number'"):
        load_scorer("numbr")
    with pytest.raises(UnknownNameError):
        source_hash("numbr")


def test_a_hash_is_over_the_scorer_and_what_it_is_made_of() -> None:
    found = module_codes("regrade.scorers.choice_logprob", ("regrade.scorers",))

    assert {name.rpartition(".")[2] for name in found} == {
        "base",
        "choice_logprob",
        "choices",
        "columns",
        "continuing",
        "pieces",
        "wording",
    }
