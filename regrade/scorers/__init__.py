"""Scorers, one a file: what is read out of an answer, and when it counts as right."""

from typing import TYPE_CHECKING

from regrade import registry

if TYPE_CHECKING:
    from regrade.scorers.base import Scorer
    from regrade.settings import Method


def scorer_names() -> tuple[str, ...]:
    """Return the names of all scorers that are installed."""
    return registry.names("scorer")


def load_scorer(name: str) -> "Scorer":
    """Return a scorer.

    Raises:
        UnknownNameError: If no scorer of this name is installed.
        PluginError: If it is installed and cannot be used.
    """
    scorer: Scorer = registry.load("scorer", name)()
    return scorer


def method_of(scorer: "Scorer") -> "Method":
    """Return how the answers come about that a scorer reads: labels are ranked if it reads their log-probabilities."""
    return "rank" if "label_logprobs" in scorer.columns else "generate"
