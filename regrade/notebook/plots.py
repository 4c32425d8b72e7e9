"""Matplotlib axes of results, in the style of the reports."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from regrade.answers.scorefile import ScoreFile
from regrade.comparing.models import ComparedSide, Comparison
from regrade.pages.viewer.library import StoredSet
from regrade.records.rubrics.facts import answering_model, model_title
from regrade.records.specification import training_step
from regrade.settings.errors import SettingsError
from regrade.stats.drawing import (
    MAX_BARS,
    MAX_CHANGES,
    Bar,
    Change,
    Point,
    bar_of,
    draw_accuracies,
    draw_changes,
    draw_steps,
    draw_subsets,
)
from regrade.stats.scale import Scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def set_axes(stored: StoredSet, scoring: ScoreFile, ax: "Axes | None") -> "Axes":
    """Draw the accuracy of each subset, or of all questions if there are no subsets."""
    spec, summary = stored.answers.manifest.specification, scoring.summary
    title = f"{spec.benchmark.name} · {model_title(spec)}"
    if summary.overall.accuracy is None:
        raise SettingsError(f"Answer set '{stored.id}' has no accuracy to draw.")
    parts = [part for part in summary.subsets or summary.categories if part.metrics.n]
    if len(parts) < 2:
        axes = ax or _axes(6, 1.2)
        draw_accuracies(axes, [bar_of(title, summary)], scoring.scale)
        return axes
    axes = ax or _axes(8, 1.8 + 0.2 * min(len(parts), MAX_BARS))
    draw_subsets(axes, summary, scoring.scale, title)
    return axes


def comparison_axes(comparison: Comparison, ax: "Axes | None") -> "Axes":
    """Draw the change of each subset, or both accuracies if there are no subsets."""
    title = f"{comparison.benchmark} · {comparison.candidate.model} against {comparison.base.model}"
    if not comparison.subsets:
        axes = ax or _axes(6, 1.8)
        names = ("baseline", comparison.base), ("candidate", comparison.candidate)
        bars = [bar for name, side in names if (bar := _side_bar(name, side, comparison.scale))]
        draw_accuracies(axes, bars, comparison.scale, title)
        return axes
    changes = [
        Change(subset.name, subset.n, subset.difference, subset.moved)
        for subset in comparison.subsets
    ]
    axes = ax or _axes(8, 1.2 + 0.2 * min(len(changes), MAX_CHANGES))
    draw_changes(axes, changes, comparison.scale, title)
    return axes


def steps_axes(title: str, sets: Sequence[StoredSet], ax: "Axes | None") -> "Axes":
    """Draw the headline accuracy of checkpoints over their steps, a line for each benchmark."""
    lines: dict[str, list[Point]] = {}
    scales: list[Scale] = []
    for stored in sets:
        spec, file = stored.answers.manifest.specification, stored.headline
        step = training_step(answering_model(spec).name)
        if step is None or file is None or file.summary.overall.accuracy is None:
            continue
        bar = bar_of(model_title(spec), file.summary)
        lines.setdefault(spec.benchmark.name, []).append(Point(step, bar))
        scales.append(file.scale)
    for name, found in lines.items():
        if len({point.step for point in found}) < len(found):
            raise SettingsError(
                f"Several answer sets of '{name}' belong to the same checkpoint, in different settings: a line over steps "
                "would mix them. Name the answer sets with `sets=[...]`."
            )
    if not lines:
        raise SettingsError(
            f"'{title}' has no scored checkpoints: their names end in `checkpoint-<step>`, as trainers write them."
        )
    scale, *others = scales
    if any(other != scale for other in others):
        raise SettingsError(
            f"The scores of {', '.join(lines)} have several scales, and a plot has one. Name answer sets with `sets=[...]`."
        )
    axes = ax or _axes(7, 4)
    draw_steps(axes, lines, scale, title)
    return axes


def _side_bar(name: str, side: ComparedSide, scale: Scale) -> Bar | None:
    accuracy, error = side.accuracy, side.accuracy_stderr or 0.0
    if accuracy is None:
        return None
    label = f"{name}: {side.model}"
    low, high = max(scale.low, accuracy - 1.96 * error), min(scale.high, accuracy + 1.96 * error)
    return Bar(label, accuracy, low, high)


def _axes(width: float, height: float) -> "Axes":
    # pyplot, so that a notebook shows the figure.
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]
