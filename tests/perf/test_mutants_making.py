"""The sample of mutants of a module."""

import ast
import re

import pytest

pytest.importorskip("mutmut", reason="mutmut is not installed: make mutants")

from perf.mutants_making import changed_lines, sample

SOURCE = '''"""A module."""

import logging
from typing import Literal

logger = logging.getLogger(__name__)
LIMIT = 3
Kind = Literal["no text"]


def short(text: str | None) -> bool:
    """Docstring."""
    if text is None:
        logger.warning("empty")
        raise ValueError("no text")
    return len(text) < LIMIT
'''


def test_a_seed_gives_the_same_mutants_again_and_another_seed_others() -> None:
    assert sample(SOURCE, 3, "1") == sample(SOURCE, 3, "1")
    assert sample(SOURCE, 3, "1") != sample(SOURCE, 3, "2")


def test_each_mutant_changes_the_code_and_none_is_sampled_twice() -> None:
    mutants = sample(SOURCE, 100, "1")

    trees = {ast.dump(ast.parse(source)) for source in (SOURCE, *mutants.sources)}
    assert len(trees) == len(mutants.sources) + 1
    assert 3 < len(mutants.sources) <= mutants.possible


def test_constants_conditions_and_operators_are_changed_but_no_wording_and_no_types() -> None:
    mutants = sample(SOURCE, 100, "1").sources

    changed = "\n".join(changed_lines(SOURCE, mutant, "short.py") for mutant in mutants)
    assert "+LIMIT = 4" in changed
    assert "+    if text is not None:" in changed
    assert "+    return len(text) <= LIMIT" in changed
    assert not re.search("XX|NO TEXT|EMPTY", changed)
    assert "+logger" not in changed
    assert '+    """' not in changed
    assert "+def short" not in changed
