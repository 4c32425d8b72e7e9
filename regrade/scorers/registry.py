"""Scorers by name, and the hash that tells a score of today's scorer from one of an older scorer."""

from functools import cache
from importlib import import_module
from typing import Final

from regrade.errors import UnknownNameError
from regrade.scorers.base import Scorer
from regrade.scorers.source_hash import source_hash as hash_of

_SCORERS: Final = {
    "number": "regrade.scorers.number:NumberScorer",
    "number_strict": "regrade.scorers.number_strict:NumberStrictScorer",
    "choice_logprob": "regrade.scorers.choice_logprob:ChoiceLogprobScorer",
    "choice_letter": "regrade.scorers.choice_letter:ChoiceLetterScorer",
    "exact": "regrade.scorers.exact:ExactScorer",
}
_PACKAGE = "regrade.scorers"


def scorer_names() -> tuple[str, ...]:
    """Return the names of all scorers."""
    return tuple(_SCORERS)


def load_scorer(name: str) -> Scorer:
    """Return a scorer.

    Raises:
        UnknownNameError: If there is no scorer of this name.
    """
    module, _, attribute = _place(name).partition(":")
    scorer: Scorer = getattr(import_module(module), attribute)()
    return scorer


@cache
def source_hash(name: str) -> str:
    """Return the hash of a scorer's code, 8 hex digits.

    It changes with the code of the scorer's module and of every module of `regrade.scorers` that it imports, directly
    or not, and not with another scorer, a comment, a docstring or the layout: see `regrade.scorers.source_hash`.

    Raises:
        UnknownNameError: If there is no scorer of this name.
    """
    return hash_of(_place(name).partition(":")[0], (_PACKAGE,))


def _place(name: str) -> str:
    if name not in _SCORERS:
        raise UnknownNameError("scorer", name, scorer_names())
    return _SCORERS[name]
