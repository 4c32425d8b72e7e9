"""State of the list of answers: what it shows, in which order. The address of the page holds all of it."""

from dataclasses import dataclass, replace
from typing import Any, Self, get_args

from regrade.pages.viewer import parameters as p
from regrade.pages.viewer.verdicts import VERDICTS
from regrade.settings import Difference

PAGE_ROWS = 50
MAX_SOUGHT = 500
"""Longest text to find, in characters."""
WITHIN = ("both", "question", "answer")
SORTS = ("number", "length", "seconds", "subset", "verdict", "extracted")
CHANGES = ("worse", "better", "same", "any")
YES_NO = ("yes", "no")


@dataclass(frozen=True, slots=True)
class AnswerFilters:
    """Filters of one answer set, which combine; each has the name of its parameter in the address."""

    verdict: tuple[str, ...] = ()
    """Empty: all."""
    truncated: str = ""
    """`yes`, `no`, or empty for both."""
    subset: str | None = None
    q: str | None = None
    """Text to find, in any case of letters."""
    within: str = "both"
    """Texts in which to find `q`: `question`, `answer` or `both`."""
    min_length: int | None = None
    """In tokens, or in characters of sets without known tokens."""
    max_length: int | None = None
    min_seconds: float | None = None
    max_seconds: float | None = None
    repeat: int | None = None
    against: str | None = None
    """Id of another answer set to the same questions."""
    change: str = ""
    """With `against`: questions with a lower value than there (`worse`), a higher one (`better`), the same, or any other
    value (`any`)."""
    sort: str = "number"
    descending: bool = False
    page: int = 1
    scorer: str | None = None
    """Label of the scoring. None: the headline's."""
    format: str = "plain"
    """`plain`, or `markdown` for texts shown as Markdown with formulas."""
    at: str | None = None
    """Revision of the repository. None: the newest."""

    @classmethod
    def of(cls, given: p.Parameters) -> Self:
        """Return the filters in an address.

        Raises:
            AddressError: If a value cannot be used.
        """
        change = p.one_of(given, "change", CHANGES, "")
        against = p.text(given, "against")
        sought = p.text(given, "q")
        if sought is not None and len(sought) > MAX_SOUGHT:
            raise p.AddressError("q", f"{sought[:40]}…", f"{MAX_SOUGHT} characters or shorter")
        return cls(
            verdict=p.some_of(given, "verdict", VERDICTS),
            truncated=p.one_of(given, "truncated", YES_NO, ""),
            subset=p.subset(given),
            q=sought,
            within=p.one_of(given, "within", WITHIN, "both"),
            min_length=p.whole(given, "min_length"),
            max_length=p.whole(given, "max_length"),
            min_seconds=p.number(given, "min_seconds"),
            max_seconds=p.number(given, "max_seconds"),
            repeat=p.whole(given, "repeat"),
            against=against,
            change=(change or "any") if against else "",
            sort=p.one_of(given, "sort", SORTS, "number"),
            descending=p.one_of(given, "descending", ("yes",), "") == "yes",
            page=p.whole(given, "page", least=1) or 1,
            scorer=p.text(given, "scorer"),
            format=p.one_of(given, "format", ("plain", "markdown"), "plain"),
            at=p.text(given, "at"),
        )

    def pairs(self) -> list[tuple[str, object]]:
        """Return names and values that differ from the default, in the order of the fields."""
        given = {name: getattr(self, name) for name in self.__slots__}
        if self.subset == "":
            given["subset"] = p.EMPTY
        return [(name, value) for name, value in given.items() if value != getattr(_DEFAULT, name)]

    @property
    def query(self) -> str:
        """The filters as the part of an address after `?`."""
        return p.query(self.pairs())

    def but(self, **changes: Any) -> Self:  # noqa: ANN401 - values of the fields
        """Return the filters with other values, on the first page unless `page` is given."""
        return replace(self, **{"page": 1, **changes})

    def toggled(self, verdict: str) -> Self:
        """Return the filters with a verdict added, or removed if it is there."""
        chosen = {*self.verdict} ^ {verdict}
        return self.but(verdict=tuple(name for name in VERDICTS if name in chosen))

    @property
    def narrows(self) -> bool:
        """True if a filter leaves answers out."""
        kept = {"sort", "descending", "page", "scorer", "format", "at", "within"}
        return any(name not in kept for name, _ in self.pairs())


_DEFAULT = AnswerFilters()


# State of a comparison's pages. The address of a page holds all of it.

KINDS = (
    "right to wrong",
    "wrong to right",
    "both wrong, differently",
    "both wrong, the same",
    "both partly right",
    "both right",
)
"""Every compared question is of exactly one kind. With repeats, the first two mean a lower and a higher mean value."""
ALLOWED: tuple[str, ...] = get_args(Difference)


@dataclass(frozen=True, slots=True)
class PairFilters:
    """State of a comparison's pages; the names are those in the address."""

    kind: tuple[str, ...] = ()
    subset: str | None = None
    allow: tuple[str, ...] = ()
    scorer: str | None = None
    """Name of the scorer of both sides. None: the baseline's first."""
    page: int = 1
    view: str = "plain"
    """`plain`, or `difference`."""
    at: str | None = None

    @classmethod
    def of(cls, given: p.Parameters) -> Self:
        """Return the filters in an address.

        Raises:
            AddressError: If a value cannot be used.
        """
        return cls(
            kind=p.some_of(given, "kind", KINDS),
            subset=p.subset(given),
            allow=p.some_of(given, "allow", ALLOWED),
            scorer=p.text(given, "scorer"),
            page=p.whole(given, "page", least=1) or 1,
            view=p.one_of(given, "view", ("plain", "difference"), "plain"),
            at=p.text(given, "at"),
        )

    def but(self, **changes: Any) -> str:  # noqa: ANN401 - values of the fields
        """Return the query of an address with other values, on the first page unless `page` is given."""
        given = {name: getattr(self, name) for name in self.__slots__} | {"page": 1} | changes
        if given["subset"] == "":
            given["subset"] = p.EMPTY
        plain = PairFilters()
        return p.query((k, v) for k, v in given.items() if v != getattr(plain, k))

    @property
    def query(self) -> str:
        """The filters as the part of an address after `?`."""
        return self.but(page=self.page)
