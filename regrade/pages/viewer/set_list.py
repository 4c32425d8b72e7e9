"""The page with all answer sets."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from regrade.answers.scorefile import ScoreFile
from regrade.pages.viewer import parameters as p
from regrade.pages.viewer.filters import AnswerFilters
from regrade.pages.viewer.library import Shelf, StoredSet
from regrade.pages.viewer.links import Links
from regrade.pages.viewer.settings_apart import settings_apart
from regrade.records.rubrics.facts import answers_per_question
from regrade.stats.metrics import Metrics, average_name

SORTS = ("date", "model", "benchmark", "accuracy", "answers", "seconds")


@dataclass(frozen=True, slots=True)
class SetFilters:
    """Filters and order of the list of answer sets; the names are those in the address."""

    q: str | None = None
    """Part of a model's name or an answer set's id, in any case of letters."""
    benchmark: str | None = None
    sort: str = "date"
    ascending: bool = False
    """Smallest first; names always begin with A unless this is set."""
    at: str | None = None

    @classmethod
    def of(cls, given: p.Parameters) -> Self:
        """Return the filters in an address.

        Raises:
            AddressError: If a value cannot be used.
        """
        return cls(
            q=p.text(given, "q"),
            benchmark=p.text(given, "benchmark"),
            sort=p.one_of(given, "sort", SORTS, "date"),
            ascending=p.one_of(given, "ascending", ("yes",), "") == "yes",
            at=p.text(given, "at"),
        )

    def but(self, **changes: Any) -> str:  # noqa: ANN401 - values of the fields
        """Return the query of an address with other values."""
        given = {name: getattr(self, name) for name in self.__slots__} | changes
        plain = SetFilters()
        return p.query((k, v) for k, v in given.items() if v != getattr(plain, k))

    @property
    def query(self) -> str:
        """The filters as the part of an address after `?`."""
        return self.but()


@dataclass(frozen=True, slots=True)
class SetRow:
    """An answer set with its headline."""

    id: str
    model: str
    benchmark: str
    apart: dict[str, str]
    """Settings that tell it from other sets of the benchmark."""
    date: datetime
    rows: int
    expected: int
    failed: int
    scoring: ScoreFile | None
    metrics: Metrics | None
    stale: bool
    average: str
    """Name of the accuracy if questions have several answers, such as `avg@8`."""
    seconds: float
    """Loading and generating, over all sessions."""
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
    benchmarks = sorted(
        {stored.answers.manifest.specification.benchmark.name for stored in shelf.sets}
    )
    if filters.benchmark is not None and filters.benchmark not in benchmarks:
        raise p.AddressError("benchmark", filters.benchmark, f"one of {', '.join(benchmarks)}")
    apart = settings_apart([stored.answers.manifest.specification for stored in shelf.sets])
    rows = [
        _row(stored, settings, filters, links)
        for stored, settings in zip(shelf.sets, apart, strict=True)
    ]
    shown = [row for row in rows if _fits(row, filters)]
    return SetList(tuple(_sorted(shown, filters)), len(rows), tuple(benchmarks), filters)


def _row(stored: StoredSet, apart: dict[str, str], filters: SetFilters, links: Links) -> SetRow:
    manifest = stored.answers.manifest
    scoring = stored.headline
    return SetRow(
        id=stored.id,
        model=stored.model,
        benchmark=manifest.specification.benchmark.name,
        apart=apart,
        date=manifest.updated_at,
        rows=manifest.rows,
        expected=manifest.expected,
        failed=manifest.failed,
        scoring=scoring,
        metrics=scoring.summary.overall if scoring else None,
        stale=scoring is not None and scoring.label in stored.stale,
        average=average_name(answers_per_question(manifest.specification)),
        seconds=manifest.totals.seconds,
        href=links.answers(stored.id, AnswerFilters(at=filters.at)),
    )


def _fits(row: SetRow, filters: SetFilters) -> bool:
    if filters.benchmark is not None and row.benchmark != filters.benchmark:
        return False
    wanted = (filters.q or "").casefold()
    return wanted in row.model.casefold() or row.id.startswith(wanted)


def _sorted(rows: Sequence[SetRow], filters: SetFilters) -> list[SetRow]:
    """Return rows in the chosen order; those without a value come last."""

    def accuracy(row: SetRow) -> float | None:
        return row.metrics.accuracy if row.metrics else None

    keys: dict[str, Any] = {
        "date": lambda row: row.date,
        "model": lambda row: row.model.casefold(),
        "benchmark": lambda row: row.benchmark,
        "accuracy": accuracy,
        "answers": lambda row: row.rows,
        "seconds": lambda row: row.seconds or None,
    }
    key = keys[filters.sort]
    known = [row for row in rows if key(row) is not None]
    names = filters.sort in ("model", "benchmark")
    known.sort(key=key, reverse=filters.ascending if names else not filters.ascending)
    return [*known, *(row for row in rows if key(row) is None)]
