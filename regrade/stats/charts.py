"""Charts of results, as PNG."""

from collections.abc import Sequence

from regrade.stats.drawing import (
    MAX_BARS,
    MAX_CHANGES,
    Bar,
    Change,
    draw_accuracies,
    draw_changes,
    draw_subsets,
    image_of,
)
from regrade.stats.metrics import Summary

DRAWING_ERRORS = (ValueError, RuntimeError, OSError)
"""Errors of matplotlib for data, fonts and files that it cannot draw. A result is complete without its chart."""


def headline_chart(bars: Sequence[Bar]) -> bytes:
    """Return a small PNG with a bar and an interval for each accuracy."""
    return image_of(lambda axes: draw_accuracies(axes, bars), 6, 0.6 + 0.5 * len(bars))


def accuracy_chart(summary: Summary, title: str) -> bytes:
    """Return a PNG of the accuracy by subset; errors as in `draw_subsets`."""
    count = min(len(summary.subsets or summary.categories), MAX_BARS)
    return image_of(lambda axes: draw_subsets(axes, summary, title), 8, 1.8 + 0.2 * count)


def change_chart(changes: Sequence[Change], title: str) -> bytes:
    """Return a PNG of the change of each subset; errors as in `draw_changes`."""
    count = min(len(changes), MAX_CHANGES)
    return image_of(lambda axes: draw_changes(axes, changes, title), 8, 1.2 + 0.2 * count)
