"""The page of a comparison: its numbers, and its questions by their change."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from markupsafe import Markup

from regrade.answers.result import Result
from regrade.comparing.likeness import NotComparableError
from regrade.comparing.models import Comparison, SubsetComparison
from regrade.comparing.text import remarks
from regrade.pages.viewer import parameters as p
from regrade.pages.viewer.answer_list import EXTRACTED_CHARACTERS, Chip, question_line
from regrade.pages.viewer.filters import ALLOWED, KINDS, PAGE_ROWS, PairFilters, on_page, toggled
from regrade.pages.viewer.index import Rows
from regrade.pages.viewer.library import StoredSet
from regrade.pages.viewer.links import PairVisit
from regrade.pages.viewer.pair_index import PairIndex, Pairing, extracted_line, place_read
from regrade.text.hidden import end_of, one_line

LINE_CHARACTERS = 90
"""Characters of an answer that the list shows."""


@dataclass(frozen=True, slots=True)
class PairRow:
    """A question in the list; texts are HTML."""

    sample_id: str
    subset: str
    kind: str
    question: Markup
    target: Markup | None
    base_extracted: Markup | None
    candidate_extracted: Markup | None
    base_answer: Markup
    candidate_answer: Markup
    href: str


@dataclass(frozen=True, slots=True)
class SubsetChange:
    """A subset beside the list."""

    change: SubsetComparison
    href: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class PairList:
    """The page of a comparison. Without `comparison`, `refusal` says why, and the rest is empty."""

    base: StoredSet
    candidate: StoredSet
    filters: PairFilters
    comparison: Comparison | None = None
    refusal: str | None = None
    allow_href: str | None = None
    """Address that allows the differences for which the comparison was refused."""
    swap_href: str = ""
    remarks: tuple[str, ...] = ()
    kinds: tuple[Chip, ...] = ()
    subsets: tuple[SubsetChange, ...] = ()
    rows: tuple[PairRow, ...] = ()
    matching: int = 0
    first: int = 1
    pages: int = 1


def pair_list(visit: PairVisit, pairing: Pairing) -> PairList:
    """Return the page of a comparison; errors as in `Pairing.of`, except that a refusal is part of the page."""
    base, candidate, filters = visit.base, visit.candidate, visit.filters
    swap = replace(visit, base=candidate, candidate=base).questions(kind=())
    try:
        found = pairing.of(base, candidate, filters)
    except NotComparableError as error:
        allow = tuple(name for name in ALLOWED if name in (*filters.allow, *error.kinds))
        return PairList(
            base,
            candidate,
            filters,
            refusal="; ".join(error.problems),
            allow_href=visit.questions(allow=allow) if error.kinds else None,
            swap_href=swap,
        )
    comparison = found.compared.comparison
    in_subset = found.rows(filters.but(kind=()))
    if filters.subset is not None and not in_subset.size:
        raise p.AddressError("subset", filters.subset, "a subset of the compared questions")
    counts = np.bincount(found.kind[in_subset], minlength=len(KINDS))
    present = np.bincount(found.kind, minlength=len(KINDS))
    rows = found.rows(filters)
    shown, number, pages = on_page(rows, filters.page)
    return PairList(
        base,
        candidate,
        filters.but(page=number),
        comparison=comparison,
        swap_href=swap,
        remarks=tuple(remarks(comparison)),
        kinds=tuple(
            Chip(
                name,
                int(counts[place]),
                visit.questions(kind=toggled(filters.kind, name, KINDS)),
                name in filters.kind,
            )
            for place, name in enumerate(KINDS)
            if present[place]
        ),
        subsets=_subset_changes(visit, comparison),
        rows=tuple(_pair_rows(visit, found, shown)),
        matching=len(rows),
        first=PAGE_ROWS * (number - 1) + 1,
        pages=pages,
    )


def _subset_changes(visit: PairVisit, comparison: Comparison) -> tuple[SubsetChange, ...]:
    """Return the subsets, the largest drop first."""
    chosen = visit.filters.subset
    return tuple(
        SubsetChange(
            subset,
            visit.questions(subset=None if chosen == subset.name else subset.name),
            chosen == subset.name,
        )
        for subset in sorted(comparison.subsets, key=lambda subset: subset.difference)
    )


def _pair_rows(visit: PairVisit, found: PairIndex, places: Rows) -> list[PairRow]:
    readers, base, candidate = visit.library.readers, visit.base, visit.candidate
    sides = found.compared.sides
    of_base, of_candidate = found.base_row[places].tolist(), found.candidate_row[places].tolist()
    columns = ("question", "prompt", "target", "text", "error")
    left = readers.take(base.answers, of_base, columns).to_pylist()
    readers.add_images(base.answers, of_base, left)
    right = readers.take(candidate.answers, of_candidate, ("text", "error")).to_pylist()
    rows = []
    for number, place in enumerate(places.tolist()):
        sample_id = str(found.sample_id[place])
        target = left[number]["target"]
        rows.append(
            PairRow(
                sample_id=sample_id,
                subset=str(found.subset[place]),
                kind=KINDS[found.kind[place]],
                question=question_line(left[number]),
                target=None if target is None else one_line(target, EXTRACTED_CHARACTERS),
                base_extracted=extracted_line(sides[0], of_base[number]),
                candidate_extracted=extracted_line(sides[1], of_candidate[number]),
                base_answer=_line(sides[0], of_base[number], left[number]),
                candidate_answer=_line(sides[1], of_candidate[number], right[number]),
                href=visit.question(sample_id),
            )
        )
    return rows


def _line(side: Result, row: int, stored: dict[str, Any]) -> Markup:
    text = stored["error"] or stored["text"] or ""
    place = place_read(side, row)
    if place is not None and stored["error"] is None and place[1] <= len(text):
        return one_line(text, LINE_CHARACTERS, place)
    return end_of(text, LINE_CHARACTERS)
