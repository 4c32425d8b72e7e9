"""Charts of results, as PNG."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO

from regrade.stats.metrics import SubsetMetrics, Summary

# Palette of Okabe and Ito (https://jfly.uni-koeln.de/color/), readable with colour blindness.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
_MAX_BARS = 80
DRAWING_ERRORS = (ValueError, RuntimeError, OSError)
"""Errors of matplotlib for data, fonts and files that it cannot draw. A result is complete without its chart."""


@dataclass(frozen=True, slots=True)
class Bar:
    """An accuracy with the ends of its 95 % interval, all in [0, 1]."""

    name: str
    accuracy: float
    low: float
    high: float


def headline_chart(bars: Sequence[Bar]) -> bytes:
    """Return a small PNG with a bar and an interval for each accuracy."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 0.6 + 0.5 * len(bars)), layout="constrained")
    axes = figure.subplots()
    axes.barh(
        [bar.name for bar in bars],
        [100 * bar.accuracy for bar in bars],
        xerr=[
            [100 * max(bar.accuracy - bar.low, 0.0) for bar in bars],
            [100 * max(bar.high - bar.accuracy, 0.0) for bar in bars],
        ],
        color="#4477aa",
        ecolor="#222222",
        capsize=3,
        height=0.6,
    )
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_xlabel("accuracy in % (95 % interval)")
    axes.spines[["top", "right"]].set_visible(False)
    for label in axes.get_yticklabels():
        label.set_parse_math(False)  # a model's name may contain a dollar sign
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def accuracy_chart(summary: Summary, title: str) -> bytes:
    """Return a PNG of the accuracy by subset, coloured by category, with 95 % intervals.

    Without subsets, the chart shows the categories. Of more than 80 subsets, it shows the 40 best and the 40 worst.

    Raises:
        ValueError: If there are neither subsets nor categories with an accuracy.
    """
    # Figure instead of pyplot: no global state, so it works in any thread and without a display.
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    bars = _sorted(summary.subsets or summary.categories)
    if not bars:
        raise ValueError("a chart needs subsets or categories with an accuracy, found none")
    left_out = max(len(bars) - _MAX_BARS, 0)
    if left_out:
        bars = bars[: _MAX_BARS // 2] + bars[-_MAX_BARS // 2 :]
    categories = list(dict.fromkeys(category.name for category in summary.categories))
    colours = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(categories)}

    figure = Figure(figsize=(8, 1.8 + 0.2 * len(bars)), dpi=110, layout="constrained")
    axes = figure.subplots()
    values = [_number(bar.metrics.accuracy, 0.0) for bar in bars]
    metrics = [bar.metrics for bar in bars]
    low = [_number(m.accuracy_low, v) for m, v in zip(metrics, values, strict=True)]
    high = [_number(m.accuracy_high, v) for m, v in zip(metrics, values, strict=True)]
    # An interval may end at the value: rounding must not make the error negative.
    errors = [
        [max(v - end, 0.0) for v, end in zip(values, low, strict=True)],
        [max(end - v, 0.0) for v, end in zip(values, high, strict=True)],
    ]
    axes.barh(
        range(len(bars)),
        values,
        xerr=errors,
        color=[colours.get(bar.category or bar.name, _COLOURS[0]) for bar in bars],
        error_kw={"elinewidth": 1, "ecolor": "black"},
        height=0.75,
    )
    labels = [f"{_short(bar.name, 60)} (n={bar.metrics.n:,})" for bar in bars]
    axes.set_yticks(range(len(bars)), labels, fontsize=8)
    axes.set_ylim(-0.6, len(bars) - 0.4)
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    overall = summary.overall.accuracy
    handles: list[Patch] = [
        Patch(color=colours[name], label=name)
        for name in categories
        if any(bar.category == name for bar in bars)
    ]
    note = "accuracy, 95 % interval"
    if overall is not None:
        axes.axvline(overall, color="#444444", linestyle="--", linewidth=1)
        note += f"; dashed: all questions, {overall:.1%}"
    if left_out:
        note += f"; {left_out} subsets between the best and the worst left out"
    axes.set_xlabel(note, fontsize=8)
    # Names come from data and may contain dollar signs, which must not start a formula.
    axes.set_title(_short(title, 90), fontsize=9, loc="left", parse_math=False)
    names = [axes.xaxis.label, *axes.get_yticklabels()]
    if handles:
        legend = figure.legend(handles=handles, fontsize=8, loc="outside lower center", ncols=4)
        names += legend.get_texts()
    for text in names:
        text.set_parse_math(False)
    buffer = BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _sorted(parts: Sequence[SubsetMetrics]) -> list[SubsetMetrics]:
    known = [part for part in parts if part.metrics.accuracy is not None]
    return sorted(known, key=lambda part: (part.metrics.accuracy, part.name))


def _number(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
