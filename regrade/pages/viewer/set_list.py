"""The page with all answer sets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from regrade.pages.viewer import parameters as p
from regrade.pages.viewer.filters import AnswerFilters
from regrade.pages.viewer.library import Shelf, StoredSet
from regrade.pages.viewer.links import Links
from regrade.pages.viewer.settings_apart import settings_apart

Order = Literal["date", "model", "benchmark", "accuracy", "answers", "seconds"]


@dataclass(frozen=True, slots=True)
class SetFilters(p.PageState):
    """Filters and order of the list of answer sets; the names are those in the address."""

    q: str | None = None
    """Part of a model's name or an answer set's id, in any case of letters."""
    benchmark: str | None = None
    sort: Order = "date"
    ascending: bool = False
    """Smallest first; names always begin with A unless this is set."""
    at: str | None = None


@dataclass(frozen=True, slots=True)
class SetRow:
    """A row of the list: an answer set, what tells it apart, and its address."""

    stored: StoredSet
    apart: dict[str, str]
    """Settings that tell it from other sets of the benchmark."""
    href: str


@dataclass(frozen=True, slots=True)
class SetList:
    """The page."""

    rows: tuple[SetRow, ...]
    total: int
    benchmarks: tuple[str, ...]
    filters: SetFilters


def set_list(shelf: Shelf, filters: SetFilters, links: Links) -> SetList:
    """Return the page for a revision.

    Raises:
        AddressError: If the repository has no such benchmark.
    """
    benchmarks = sorted({stored.benchmark for stored in shelf.sets})
    if filters.benchmark is not None and filters.benchmark not in benchmarks:
        raise p.AddressError("benchmark", filters.benchmark, f"one of {', '.join(benchmarks)}")
    apart = settings_apart([stored.manifest for stored in shelf.sets])
    rows = [
        SetRow(stored, settings, links.answers(stored.id, AnswerFilters(at=filters.at)))
        for stored, settings in zip(shelf.sets, apart, strict=True)
    ]
    shown = [row for row in rows if _fits(row.stored, filters)]
    return SetList(tuple(_sorted(shown, filters)), len(rows), tuple(benchmarks), filters)


def _fits(stored: StoredSet, filters: SetFilters) -> bool:
    if filters.benchmark is not None and stored.benchmark != filters.benchmark:
        return False
    wanted = (filters.q or "").casefold()
    return wanted in stored.model.casefold() or stored.id.startswith(wanted)


def _sorted(rows: Sequence[SetRow], filters: SetFilters) -> list[SetRow]:
    """Return rows in the chosen order; those without a value come last."""
    keys: dict[str, Callable[[StoredSet], Any]] = {
        "date": lambda stored: stored.manifest.updated_at,
        "model": lambda stored: stored.model.casefold(),
        "benchmark": lambda stored: stored.benchmark,
        "accuracy": lambda stored: stored.metrics.accuracy if stored.metrics else None,
        "answers": lambda stored: stored.manifest.rows,
        "seconds": lambda stored: stored.manifest.totals.seconds or None,
    }
    key = keys[filters.sort]
    known = [row for row in rows if key(row.stored) is not None]
    names = filters.sort in ("model", "benchmark")
    known.sort(
        key=lambda row: key(row.stored),
        reverse=filters.ascending if names else not filters.ascending,
    )
    return [*known, *(row for row in rows if key(row.stored) is None)]
