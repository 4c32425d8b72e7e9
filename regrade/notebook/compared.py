"""A comparison of two answer sets, for a notebook."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from regrade.comparing.gate_report import BenchmarkVerdict
from regrade.comparing.models import Comparison
from regrade.notebook.plots import comparison_axes

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True)
class ComparedAnswers:
    """Two answer sets, compared question by question."""

    rows: "pd.DataFrame"
    """A row for each compared question: `change` (such as `right to wrong`), the values of both sides, what was read, target."""
    comparison: Comparison
    """The numbers of `regrade compare`: difference, interval, p-value, subsets, notes."""
    verdict: BenchmarkVerdict
    """Verdict of `regrade gate` for the accepted drop: `verdict.verdict` is pass, regression or cannot tell."""

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the change of each subset, or both accuracies if there are no subsets; return the axes.

        Args:
            ax: Axes to draw on. None: those of a new figure.
        """
        return comparison_axes(self.comparison, ax)

    def __repr__(self) -> str:
        """Models, difference with interval, and the verdict in one line."""
        found = self.comparison
        scale, judged = found.scale, f", {found.calibration}" if found.calibration else ""
        interval = (
            f"{scale.difference_text(found.low)} to {scale.difference_text(found.high)}{judged}"
        )
        return (
            f"{found.benchmark}: {found.candidate.model} against {found.base.model}, {scale.difference_text(found.difference)} points "
            f"({interval}), {found.right_to_wrong:,} right to wrong, {found.wrong_to_right:,} wrong to right of "
            f"{found.n:,}; {self.verdict.verdict}: {self.verdict.reason}"
        )
