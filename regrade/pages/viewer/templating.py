"""Jinja templates of pages: everything is escaped, and numbers have one form."""

from collections.abc import Callable

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from regrade.answers.figures import Figure
from regrade.comparing.text import p_text
from regrade.pages.viewer.visible import visible
from regrade.stats.scale import SHARES
from regrade.text.text import visible as plain


def page_templates(*packages: str) -> Environment:
    """Return the viewer's templates.

    Args:
        packages: Packages whose folder `templates` is searched first.
    """
    pages = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in (*packages, "regrade.pages.viewer")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., object]] = {
        "visible": visible,
        "plain": lambda value: plain(str(value)),  # where no markup can be: titles, options
        "percent": _percent,
        "mean": lambda value, scale: scale.text(value).removesuffix(" %"),
        "count": lambda value: f"{value:,}",
        "points": SHARES.difference_text,
        "p": p_text,
        "short": lambda text, size: text if len(text) <= size else f"{text[: size - 1]}…",
        "duration": _duration,
        "figure": _figure,
    }
    pages.filters.update(filters)
    return pages


def _percent(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{100 * value:.{digits}f}"


def _figure(figure: Figure, value: float | None) -> str:
    return _duration(value) if figure.unit == "s" else figure.text(value, unknown="-")


def _duration(seconds: float | None) -> str:
    """Return seconds as people read them: 4.2 s, 3 min, 2.5 h."""
    if not seconds:
        return "-"
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
