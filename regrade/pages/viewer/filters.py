"""State of the list of answers, and of a comparison's pages: what they show, in which order. The address of a page holds all of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from regrade.pages.viewer import parameters as p
from regrade.pages.viewer.verdicts import Verdict
from regrade.settings import Difference

PAGE_ROWS = 50
MAX_SOUGHT = 500
"""Longest text to find, in characters."""
Within = Literal["both", "question", "answer"]
Order = Literal["number", "length", "seconds", "subset", "verdict", "extracted"]
Change = Literal["worse", "better", "same", "any"]
Kind = Literal[
    "right to wrong",
    "wrong to right",
    "both wrong, differently",
    "both wrong, the same",
    "both partly right",
    "both right",
]
"""Every compared question is of exactly one kind. With repeats, the first two mean a lower and a higher mean value."""
KINDS: tuple[Kind, ...] = get_args(Kind)
ALLOWED: tuple[Difference, ...] = get_args(Difference)


@dataclass(frozen=True, slots=True)
class AnswerFilters(p.PageState):
    """Filters of one answer set, which combine; each has the name of its parameter in the address."""

    verdict: tuple[Verdict, ...] = ()
    """Only these verdicts. May be given several times."""
    truncated: Literal["yes", "no"] | None = None
    """Only answers that end at the limit of tokens, or only the others."""
    subset: str | None = None
    """Only this subset."""
    q: str | None = None
    """Only with this text in question or answer, ignoring case."""
    within: Within = "both"
    """Texts in which to find it."""
    min_length: int | None = None
    """Shortest answer, in tokens; in characters if tokens are not known."""
    max_length: int | None = None
    """Longest answer, in the same unit."""
    min_seconds: float | None = None
    """Least seconds that an answer took."""
    max_seconds: float | None = None
    """Most seconds that an answer took."""
    repeat: int | None = None
    """Only this answer to each question, from 0."""
    against: str | None = None
    """Only answers whose value differs from that in this answer set (id, model or alias)."""
    change: Change | None = None
    """Against another answer set: only this change. `worse` is a lower value than there, `better` a higher one."""
    sort: Order = "number"
    """Order of the answers: by the number of the question, by length, and so on."""
    descending: bool = False
    """Largest first."""
    page: int = 1
    """Page to show."""
    scorer: str | None = None
    """Label of the scoring. None: the headline's."""
    format: Literal["plain", "markdown"] = "plain"
    """`plain`, or `markdown` for texts shown as Markdown with formulas."""
    at: str | None = None
    """Revision of the repository. None: the newest."""

    @classmethod
    def of(cls, given: p.Parameters) -> Self:
        """Return the filters in an address.

        Raises:
            AddressError: If a value cannot be used.
        """
        found = super(AnswerFilters, cls).of(given)
        if found.q is not None and len(found.q) > MAX_SOUGHT:
            raise p.AddressError("q", f"{found.q[:40]}…", f"{MAX_SOUGHT} characters or shorter")
        return replace(found, change=(found.change or "any") if found.against else None)

    @property
    def narrows(self) -> bool:
        """True if a filter leaves answers out."""
        kept = {"sort", "descending", "page", "scorer", "format", "at", "within"}
        return any(name not in kept for name, _ in self.pairs())


@dataclass(frozen=True, slots=True)
class PairFilters(p.PageState):
    """State of a comparison's pages; the names are those in the address."""

    kind: tuple[Kind, ...] = ()
    subset: str | None = None
    allow: tuple[Difference, ...] = ()
    scorer: str | None = None
    """Name of the scorer of both sides. None: the baseline's first."""
    page: int = 1
    view: Literal["plain", "difference"] = "plain"
    """`plain`, or `difference`."""
    at: str | None = None


def on_page(rows: NDArray[np.int64], page: int) -> tuple[NDArray[np.int64], int, int]:
    """Return the rows of a page, its number, and the number of pages; instead of a page beyond the last, the last."""
    pages = max(1, -(-len(rows) // PAGE_ROWS))
    page = min(page, pages)
    return rows[PAGE_ROWS * (page - 1) : PAGE_ROWS * page], page, pages


def toggled(chosen: Sequence[str], name: str, every: Sequence[str]) -> tuple[str, ...]:
    """Return the chosen names with one added, or removed if it is among them, in the order of all."""
    now = {*chosen} ^ {name}
    return tuple(known for known in every if known in now)
