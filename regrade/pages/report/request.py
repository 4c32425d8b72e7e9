"""Request for a report: its content, apart from the modules that make it, which take long to import."""

from dataclasses import dataclass

from regrade.settings import Difference

MAX_EXAMPLES = 200
"""Most answers in a report."""


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """Contents that a report is asked to show."""

    answers: str
    """Address of the answer repository."""
    names: tuple[str, ...] = ()
    """Answer set ids, models or aliases. Empty: all answer sets."""
    base: str | None = None
    """Answer set id, model or alias to compare with. None: no comparison."""
    base_sets: tuple[str, ...] = ()
    """Ids of the answer sets that `base` stands for. Empty: those that it names now."""
    base_answers: str | None = None
    """Repository of the baseline, if it is another."""
    scorer: str | None = None
    """Scorer of all numbers. None: the headline's."""
    allow: tuple[Difference, ...] = ()
    """Accepted differences beside the model."""
    examples: int = MAX_EXAMPLES
    """Most answers to show."""
