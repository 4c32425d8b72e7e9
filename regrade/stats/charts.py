"""Charts of results, as PNG."""

from collections.abc import Callable, Sequence
from io import BytesIO
from typing import TYPE_CHECKING

from regrade.stats.drawing import (
    MAX_BARS,
    MAX_CHANGES,
    Bar,
    Change,
    draw_accuracies,
    draw_changes,
    draw_subsets,
)
from regrade.stats.metrics import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DRAWING_ERRORS = (ValueError, RuntimeError, OSError)
"""Errors of matplotlib for data, fonts and files that it cannot draw. A result is complete without its chart."""


def headline_chart(bars: Sequence[Bar]) -> bytes:
    """Return a small PNG with a bar and an interval for each accuracy."""
    return _png(6, 0.6 + 0.5 * len(bars), lambda axes: draw_accuracies(axes, bars))


def accuracy_chart(summary: Summary, title: str) -> bytes:
    """Return a PNG of the accuracy by subset; errors as in `draw_subsets`."""
    count = min(len(summary.subsets or summary.categories), MAX_BARS)
    return _png(8, 1.8 + 0.2 * count, lambda axes: draw_subsets(axes, summary, title))


def change_chart(changes: Sequence[Change], title: str) -> bytes:
    """Return a PNG of the change of each subset; errors as in `draw_changes`."""
    count = min(len(changes), MAX_CHANGES)
    return _png(8, 1.2 + 0.2 * count, lambda axes: draw_changes(axes, changes, title))


def _png(width: float, height: float, draw: "Callable[[Axes], None]") -> bytes:
    # Figure instead of pyplot: no global state, so it works in any thread and without a display.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
    draw(figure.subplots())
    buffer = BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
