"""Aliases of watched models: their own, and valid whatever the model's name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regrade.answers.aliases import is_alias_name
from regrade.checkpoints.watching.found import Found, alias_of, check_aliases
from regrade.settings.errors import SettingsError


@pytest.mark.parametrize(
    ("name", "alias"),
    [
        ("Qwen/Qwen3-0.6B", "last-good-qwen-qwen3-0-6b"),
        ("my run", "last-good-my-run"),
        ("a" * 40, f"last-good-{'a' * 40}"),
    ],
)
def test_an_alias_has_the_name_of_its_model(name: str, alias: str):
    assert alias_of("last-good-{model}", name) == alias


@given(st.text(min_size=1))
def test_every_name_makes_a_valid_alias(name: str):
    assert is_alias_name(alias_of("last-good-{model}", name))


def test_long_names_that_begin_alike_have_different_aliases():
    first, second = alias_of("x-{model}", "a" * 70 + "1"), alias_of("x-{model}", "a" * 70 + "2")

    assert first != second
    assert len(first) <= 63


def test_two_models_with_one_alias_are_refused():
    found = [Found("a/b-c", "a/b-c@1", "1"), Found("a-b/c", "a-b/c@2", "2")]

    with pytest.raises(SettingsError, match="'a-b/c' and 'a/b-c' have the same alias 'good-a-b-c'"):
        check_aliases("good-{model}", found)
    check_aliases("baseline", found)  # chosen for all models


def test_checkpoints_of_a_training_share_its_alias():
    check_aliases("good-{model}", [Found("run", "/run/1", "a"), Found("run", "/run/2", "b")])


def test_checkpoints_of_a_training_are_told_apart_by_their_titles():
    assert Found("sft-7", "/runs/sft-7/checkpoint-500", "ab").title == "sft-7/checkpoint-500"
    assert Found("final", "/models/final", "ab").title == "final"
    assert Found("org/name", "org/name@abc", "abc").title == "org/name"
