"""State of a comparison's pages. The address of a page holds all of it."""

from dataclasses import dataclass
from typing import Any, Self, get_args

from regrade.settings import Difference
from regrade.viewing import parameters as p

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
