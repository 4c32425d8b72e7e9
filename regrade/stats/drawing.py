"""Draw results on matplotlib axes: accuracies, subsets, changes against a baseline, checkpoints over steps; one style for all."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, Literal

from regrade.stats.metrics import SubsetMetrics, Summary
from regrade.stats.scale import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

# Palette of Okabe and Ito (https://jfly.uni-koeln.de/color/), readable with colour blindness.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
BAR, BAR_ON_DARK, DROP = COLOURS[0], COLOURS[4], COLOURS[5]
"""Colours of a bar on a light and on a dark page, and of one that shows a drop. The viewer and HTML reports take theirs from here."""
INTERVAL, REFERENCE, GRID = "#000000", "#666666", "#dddddd"
"""Colours of intervals, of lines to compare with, and of the grid."""
MAX_BARS = 80
MAX_CHANGES = 40
TITLE_CHARACTERS = 90
SMALL = 8
"""Size of the font of labels; titles are a point larger."""
ImageFormat = Literal["png", "svg"]
WHISKERS: dict[str, Any] = {"elinewidth": 1.2, "capsize": 3}


def css() -> str:
    """Return the colours of charts as variables of a style sheet."""
    dark = f"@media (prefers-color-scheme: dark) {{ :root {{ --bar: {BAR_ON_DARK}; }} }}"
    return f":root {{ --bar: {BAR}; }}\n{dark}\n"


@dataclass(frozen=True, slots=True)
class Bar:
    """An accuracy with the ends of its 95 % interval, all in [0, 1]."""

    name: str
    accuracy: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Change:
    """Change of a subset against the baseline."""

    name: str
    n: int
    difference: float
    """Candidate minus baseline, in [-1, 1]."""
    moved: bool
    """The change is significant after correction for testing all subsets."""


@dataclass(frozen=True, slots=True)
class Point:
    """Accuracy of a checkpoint."""

    step: int
    bar: Bar


def style(axes: "Axes", title: str = "", grid: Literal["x", "y", "both"] = "x") -> None:
    """Give axes the style of all charts: no frame, a light grid, a short title on the left, names as they are."""
    axes.grid(axis=grid, color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if title:
        axes.set_title(
            _short(title, TITLE_CHARACTERS), fontsize=SMALL + 1, loc="left", parse_math=False
        )
    plain([axes.xaxis.label, axes.yaxis.label, *axes.get_yticklabels()])


def image_of(
    draw: "Callable[[Axes], None]", width: float, height: float, image: ImageFormat = "png"
) -> bytes:
    """Return a drawing of `width` and `height` inches as an image."""
    # Figure instead of pyplot: no global state, so it works in any thread and without a display.
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
    draw(figure.subplots())
    buffer = BytesIO()
    with rc_context({"svg.hashsalt": "regrade"}):
        metadata = {"Date": None} if image == "svg" else None
        figure.savefig(buffer, format=image, metadata=metadata)
    return buffer.getvalue()


def draw_accuracies(axes: "Axes", bars: Sequence[Bar], title: str = "") -> None:
    """Draw a bar and an interval for each accuracy, in percent."""
    axes.barh(
        [bar.name for bar in bars],
        [100 * bar.accuracy for bar in bars],
        xerr=_errors(bars),
        color=BAR,
        error_kw=WHISKERS | {"ecolor": INTERVAL},
        height=0.6,
    )
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.xaxis.set_major_formatter(lambda value, _: percent(value / 100, None))
    axes.set_xlabel("accuracy, 95 % interval")
    style(axes, title)


def draw_subsets(axes: "Axes", summary: Summary, title: str) -> None:
    """Draw the accuracy by subset, coloured by category, with 95 % intervals.

    Without subsets, the chart shows the categories. Of more than 80 subsets, it shows the 40 best and the 40 worst.

    Raises:
        ValueError: If there are neither subsets nor categories with an accuracy, or the accuracies are no shares.
    """
    from matplotlib.patches import Patch

    parts = _sorted(summary.subsets or summary.categories)
    if not parts:
        raise ValueError("a chart needs subsets or categories with an accuracy, found none")
    if any(not 0 <= (part.metrics.accuracy or 0.0) <= 1 for part in parts):
        raise ValueError("a chart shows shares from 0 to 1, found scores of another scale")
    left_out = max(len(parts) - MAX_BARS, 0)
    if left_out:
        parts = parts[: MAX_BARS // 2] + parts[-MAX_BARS // 2 :]
    categories = list(dict.fromkeys(category.name for category in summary.categories))
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(categories)}
    bars = [bar_of(part.name, part) for part in parts]
    axes.barh(
        range(len(bars)),
        [100 * bar.accuracy for bar in bars],
        xerr=_errors(bars),
        color=[colours.get(part.category or part.name, BAR) for part in parts],
        error_kw=WHISKERS | {"ecolor": INTERVAL},
        height=0.75,
    )
    labels = [f"{_short(part.name, 60)} (n={part.metrics.n:,})" for part in parts]
    axes.set_yticks(range(len(bars)), labels, fontsize=SMALL)
    axes.set_ylim(-0.6, len(bars) - 0.4)
    axes.set_xlim(0, 100)
    axes.xaxis.set_major_formatter(lambda value, _: percent(value / 100, None))
    overall = summary.overall.accuracy
    note = "accuracy, 95 % interval"
    if overall is not None:
        axes.axvline(100 * overall, color=REFERENCE, linestyle="--", linewidth=1)
        note += f"; dashed: all questions, {percent(overall)}"
    if left_out:
        note += f"; {left_out} subsets between the best and the worst left out"
    axes.set_xlabel(note, fontsize=SMALL)
    style(axes, title)
    handles: list[Patch] = [
        Patch(color=colours[name], label=name)
        for name in categories
        if any(part.category == name for part in parts)
    ]
    if handles:
        figure = axes.get_figure(root=True)
        # Only a figure that lays itself out has room outside of its axes.
        if figure is not None and figure.get_constrained_layout():
            legend = figure.legend(
                handles=handles, fontsize=SMALL, loc="outside lower center", ncols=4
            )
        else:
            legend = axes.legend(handles=handles, fontsize=SMALL)
        plain(legend.get_texts())


def draw_changes(axes: "Axes", changes: Sequence[Change], title: str) -> None:
    """Draw the change of each subset in percentage points, the largest drop on top; significant ones are filled.

    Of more than 40 subsets, the chart shows the 20 largest drops and the 20 largest gains.

    Raises:
        ValueError: If there is no subset.
    """
    if not changes:
        raise ValueError("a chart of changes needs subsets, found none")
    shown = sorted(changes, key=lambda change: (change.difference, change.name))
    left_out = max(len(shown) - MAX_CHANGES, 0)
    if left_out:
        shown = shown[: MAX_CHANGES // 2] + shown[-MAX_CHANGES // 2 :]
    colours = [DROP if change.difference < 0 else BAR for change in shown]
    axes.barh(
        range(len(shown)),
        [100 * change.difference for change in shown],
        color=[
            colour if change.moved else "none"
            for colour, change in zip(colours, shown, strict=True)
        ],
        edgecolor=colours,
        height=0.7,
    )
    labels = [f"{_short(change.name, 60)} (n={change.n:,})" for change in shown]
    axes.set_yticks(range(len(shown)), labels, fontsize=SMALL)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.axvline(0, color=REFERENCE, linewidth=1)
    note = "change in percentage points; filled: significant among all subsets"
    if left_out:
        note += f"; {left_out} subsets in between left out"
    axes.set_xlabel(note, fontsize=SMALL)
    style(axes, title)


def draw_steps(axes: "Axes", lines: Mapping[str, Sequence[Point]], title: str) -> None:
    """Draw a line over the training steps for each benchmark, with 95 % intervals, in percent.

    Raises:
        ValueError: If there is no point.
    """
    if not any(lines.values()):
        raise ValueError("a chart over steps needs checkpoints with an accuracy, found none")
    for number, (name, points) in enumerate(lines.items()):
        ordered = sorted(points, key=lambda point: point.step)
        bars = [point.bar for point in ordered]
        axes.errorbar(
            [point.step for point in ordered],
            [100 * bar.accuracy for bar in bars],
            yerr=_errors(bars),
            color=COLOURS[number % len(COLOURS)],
            marker="o",
            markersize=4,
            linewidth=1.5,
            label=name,
            **WHISKERS,
        )
    axes.set_xlabel("training step")
    axes.yaxis.set_major_formatter(lambda value, _: percent(value / 100, None))
    axes.set_ylabel("accuracy, 95 % interval")
    style(axes, title, grid="both")
    plain(axes.legend(fontsize=SMALL).get_texts())


def bar_of(name: str, part: SubsetMetrics | Summary) -> Bar:
    """Return the bar of a subset or of all questions; an interval that is not known ends at the value.

    Raises:
        ValueError: If it has no accuracy.
    """
    metrics = part.metrics if isinstance(part, SubsetMetrics) else part.overall
    if metrics.accuracy is None:
        raise ValueError(f"'{name}' has no accuracy to draw")
    low = metrics.accuracy if metrics.accuracy_low is None else metrics.accuracy_low
    high = metrics.accuracy if metrics.accuracy_high is None else metrics.accuracy_high
    return Bar(name, metrics.accuracy, low, high)


def plain(texts: "Iterable[Text]") -> None:
    """Show texts as they are: names come from data and may contain dollar signs, which would start a formula."""
    for text in texts:
        text.set_parse_math(False)


def _errors(bars: Sequence[Bar]) -> list[list[float]]:
    # An interval may end at the value: rounding must not make the error negative.
    return [
        [100 * max(bar.accuracy - bar.low, 0.0) for bar in bars],
        [100 * max(bar.high - bar.accuracy, 0.0) for bar in bars],
    ]


def _sorted(parts: Sequence[SubsetMetrics]) -> list[SubsetMetrics]:
    known = [part for part in parts if part.metrics.accuracy is not None]
    return sorted(known, key=lambda part: (part.metrics.accuracy, part.name))


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
