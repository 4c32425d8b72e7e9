"""Charts of curves and points with error bars, as PNG or SVG: speeds, and accuracy over cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from regrade.stats.drawing import (
    COLOURS,
    REFERENCE,
    SMALL,
    WHISKERS,
    ImageFormat,
    image_of,
    plain,
    style,
)
from regrade.stats.scale import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes as MatplotlibAxes
    from matplotlib.text import Text

_MARKERS = "osD^vP*X"
_MAX_LABELS = 24
"""Most points that get a label each."""


@dataclass(frozen=True, slots=True)
class Place:
    """A point of a chart."""

    x: float
    y: float
    low: float | None = None
    """Lower end of the interval of `y`; None without one."""
    high: float | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class Curve:
    """Places that belong together; `joined` draws a line through them, in their order."""

    name: str
    places: tuple[Place, ...]
    joined: bool = True


@dataclass(frozen=True, slots=True)
class Axes:
    """Texts and scales of a chart."""

    title: str
    x: str
    y: str
    log_x: bool = False
    percent_y: bool = False


def curve_chart(
    curves: Sequence[Curve], axes: Axes, front: Sequence[Place] = (), image: ImageFormat = "png"
) -> bytes:
    """Return a chart of curves.

    Args:
        curves: At least one, each with at least one place.
        axes: Texts and scales.
        front: Places on the Pareto front, from left to right; drawn as steps.
        image: Format of the image.

    Raises:
        ValueError: If there is nothing to draw.
    """
    curves = [curve for curve in curves if curve.places]
    if not curves:
        raise ValueError(f"'{axes.title}' needs at least one point")
    return image_of(partial(_draw, curves, axes, front), 7.5, 4.6, image)


def _draw(
    curves: Sequence[Curve], axes: Axes, front: Sequence[Place], plot: "MatplotlibAxes"
) -> None:
    labelled = sum(bool(p.label) for c in curves for p in c.places) <= _MAX_LABELS
    texts: list[Text] = []
    for number, curve in enumerate(curves):
        xs, ys = [p.x for p in curve.places], [p.y for p in curve.places]
        bars = [
            [max(p.y - (p.y if p.low is None else p.low), 0.0) for p in curve.places],
            [max((p.y if p.high is None else p.high) - p.y, 0.0) for p in curve.places],
        ]
        plot.errorbar(
            xs,
            ys,
            yerr=bars if any(map(any, bars)) else None,
            marker=_MARKERS[number % len(_MARKERS)],
            linestyle="-" if curve.joined else "none",
            color=COLOURS[number % len(COLOURS)],
            linewidth=1.5,
            markersize=6,
            label=curve.name,
            **WHISKERS,
        )
        texts.extend(
            plot.annotate(p.label, (p.x, p.y), (6, 5), textcoords="offset points", fontsize=SMALL)
            for p in (curve.places if labelled else ())
        )
    if len(front) > 1:
        plot.step(
            [p.x for p in front],
            [p.y for p in front],
            where="post",
            color=REFERENCE,
            linestyle="--",
            linewidth=1,
            zorder=0,
        )
    if axes.log_x:
        plot.set_xscale("log", base=2)
        ticks = sorted({place.x for curve in curves for place in curve.places})
        if len(ticks) <= 12:
            plot.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            plot.minorticks_off()
    else:
        plot.set_xlim(left=0)
    if axes.percent_y:
        plot.yaxis.set_major_formatter(lambda value, _: percent(value, None))
    else:
        plot.set_ylim(bottom=0)
    plot.set_xlabel(axes.x)
    plot.set_ylabel(axes.y)
    style(plot, axes.title, grid="both")
    if len(curves) > 1 and (figure := plot.get_figure(root=True)) is not None:
        columns = 1 if max(len(curve.name) for curve in curves) > 40 else 2
        legend = figure.legend(loc="outside lower center", fontsize=SMALL, ncols=columns)
        texts += legend.get_texts()
    plain(texts)
