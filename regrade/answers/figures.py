"""Figures of an answer set and its scoring beside the metrics: declared once, shown by every view.

All views of results read `FIGURES`; a figure that is added here shows in each, unless `shown` leaves some out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from regrade.answers.manifest import Manifest
from regrade.answers.scorefile import ScoreFile

View = Literal["list", "viewer", "report", "page", "sweep", "show", "compare"]
"""A table or a line for people. JSON, frames, exports and MLflow have all figures."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of an answer set, or of a scoring of it."""

    name: str
    """Name of the field in JSON and of the column in frames."""
    title: str
    """Heading of its column."""
    unit: str
    """`s` for seconds; "" if the heading says it."""
    of: Callable[[Manifest, ScoreFile | None], float | None]
    """Computes it; None: not known. The scoring is None if there is none."""
    form: str = ",.1f"
    """Format of a value in tables."""
    metric: str = ""
    """Name of the metric in MLflow, if it is neither `seconds/<title>` of seconds nor `generation/<name>`."""
    shown: tuple[View, ...] = get_args(View)
    """Views that show it."""

    @property
    def heading(self) -> str:
        """Title and unit."""
        return f"{self.title} {self.unit}".strip()

    def text(self, value: float | None, unknown: str = "") -> str:
        """Return a value as a cell of a table."""
        return unknown if value is None else format(value, self.form)

    @property
    def key(self) -> str:
        """Name of the metric in MLflow."""
        usual = f"seconds/{self.title}" if self.unit == "s" else f"generation/{self.name}"
        return self.metric or usual


def _sum(name: str) -> Callable[[Manifest, ScoreFile | None], float | None]:
    """Compute a field of `Totals`; not known of imported answers, which have no session."""
    return lambda manifest, _: getattr(manifest.totals, name) if manifest.sessions else None


def _rate(name: str) -> Callable[[Manifest, ScoreFile | None], float | None]:
    """Compute a field of `Totals` per second of generating."""
    return lambda manifest, _: manifest.totals.per_second(getattr(manifest.totals, name))


def _score_seconds(_: Manifest, file: ScoreFile | None) -> float | None:
    return None if file is None else file.score_seconds


FIGURES: list[Figure] = [
    Figure("load_seconds", "load", "s", _sum("load_seconds"), shown=("report",)),
    Figure(
        "seconds", "generate", "s", _sum("seconds"), shown=("report", "viewer", "show", "compare")
    ),
    Figure("score_seconds", "score", "s", _score_seconds, shown=("report",)),
    Figure("prompt_tokens", "prompt tokens", "", _sum("prompt_tokens"), ",.0f", shown=("report",)),
    Figure(
        "completion_tokens",
        "completion tokens",
        "",
        _sum("completion_tokens"),
        ",.0f",
        shown=("report", "show", "compare"),
    ),
    Figure(
        "prompt_tokens_per_second", "prompt tokens/s", "", _rate("prompt_tokens"), ",.0f", shown=()
    ),
    Figure(
        "tokens_per_second",
        "tokens/s",
        "",
        _rate("completion_tokens"),
        ",.0f",
        "generation/completion_tokens_per_second",
        ("report", "show"),
    ),
]
"""All figures, in the order of their columns."""


def figures_in(view: View) -> list[Figure]:
    """Return the figures that a view shows."""
    return [figure for figure in FIGURES if view in figure.shown]


def figures_line(view: View, *sides: Mapping[str, float | None]) -> str:
    """Return the figures of a view in one line, such as `generate 6.0 s`, or `generate 6.0 -> 8.0 s` of two sides.

    Only those that are known on each side; "" without any.
    """
    found = []
    for figure in figures_in(view):
        texts = [figure.text(side.get(figure.name)) for side in sides]
        if all(texts):
            found.append(f"{figure.title} {' -> '.join(texts)} {figure.unit}".strip())
    return ", ".join(found)


def figures_of(manifest: Manifest, file: ScoreFile | None) -> dict[str, float | None]:
    """Return all figures by name."""
    return {figure.name: figure.of(manifest, file) for figure in FIGURES}


def metrics_of(manifest: Manifest, file: ScoreFile | None) -> dict[str, float]:
    """Return the figures that are known by their names in MLflow."""
    values = {figure.key: figure.of(manifest, file) for figure in FIGURES}
    return {key: value for key, value in values.items() if value is not None}
