"""Jinja templates of pages: everything is escaped, and numbers have one form."""

from collections.abc import Callable
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from regrade.answers.figures import Figure
from regrade.comparing.text import p_text
from regrade.stats.drawing import css
from regrade.stats.metrics import Metrics
from regrade.stats.scale import SHARES, Scale, percent
from regrade.text.blocks import Interval
from regrade.text.hidden import as_html
from regrade.text.html import badge, drawn
from regrade.text.text import shortened, visible


def style_sheet() -> str:
    """Return the style of the viewer's pages and of HTML reports, whose charts have the colours of all charts."""
    return css() + files("regrade.pages.viewer").joinpath("static/style.css").read_text("utf-8")


def page_templates() -> Environment:
    """Return the viewer's templates."""
    pages = Environment(
        loader=PackageLoader("regrade.pages.viewer"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.globals |= {"interval": _interval, "badge": badge}
    filters: dict[str, Callable[..., object]] = {
        "visible": as_html,
        "plain": lambda value: visible(str(value)),  # where no markup can be: titles, options
        "percent": lambda value, digits=1: percent(value, digits).removesuffix(" %"),
        "mean": lambda value, scale: scale.text(value).removesuffix(" %"),
        "count": lambda value: f"{value:,}",
        "p": p_text,
        "short": shortened,
        "figure": _figure,
    }
    pages.filters.update(filters)
    return pages


def _interval(metrics: Metrics | None, scale: Scale = SHARES) -> Markup:
    found = "" if metrics is None else interval_of(metrics, scale)
    return Markup("") if isinstance(found, str) else drawn(found)


def _figure(figure: Figure, value: float | None) -> str:
    return _duration(value) if figure.unit == "s" else figure.text(value, unknown="-")


def _duration(seconds: float | None) -> str:
    """Return seconds as people read them: 4.2 s, 3 min, 2.5 h."""
    if not seconds:
        return "-"
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def interval_of(metrics: Metrics, scale: Scale, digits: int = 1) -> Interval | str:
    """Return the interval of a mean, which HTML pages draw; "" without a mean."""
    if metrics.accuracy is None:
        return ""
    low, high = metrics.accuracy_low, metrics.accuracy_high
    at = scale.shares(metrics.accuracy)
    if low is None or high is None:
        return Interval("", at)
    return Interval(
        scale.interval_text(low, high, digits), at, scale.shares(low), scale.shares(high)
    )
