"""Interface of scorers whose values are no shares, such as a judge that grades from 1 to 3."""

from typing import Protocol, runtime_checkable

from regrade.scorers.sessions import ScoringContext
from regrade.stats.scale import Scale


@runtime_checkable
class ScaledScorer(Protocol):
    """Scorer with a scale of its own; all others give shares from 0 to 1."""

    def scale(self, context: ScoringContext) -> Scale:
        """Return the scale of the values that the scorer gives these answers."""
