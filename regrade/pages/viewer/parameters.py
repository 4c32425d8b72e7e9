"""Values in an address: read strictly, with errors that name the value and what was expected."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from types import NoneType
from typing import Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints
from urllib.parse import urlencode

from regrade.settings.errors import UserError

Parameters = Mapping[str, Sequence[str]]
"""Values by name; a name may be given several times."""


EMPTY = '""'
"""The empty name of a subset, in an address."""


class AddressError(UserError):
    """A value in an address that cannot be used."""

    def __init__(self, name: str, value: str, expected: str) -> None:
        self.name, self.value, self.expected = name, value, expected
        super().__init__(name, value, expected)

    def __str__(self) -> str:
        return f"`{self.name}={self.value}` in the address should be {self.expected}."


def text(given: Parameters, name: str) -> str | None:
    """Return a text, or None if it is missing or empty."""
    values = [value for value in given.get(name, ()) if value]
    if len(values) > 1:
        raise AddressError(name, "&".join(values), "given once")
    return values[0] if values else None


def one_of(given: Parameters, name: str, allowed: Sequence[str], default: str | None) -> str | None:
    """Return one of the allowed words, or the default if it is missing."""
    value = text(given, name)
    if value is not None and value not in allowed:
        raise AddressError(name, value, f"one of {', '.join(allowed)}")
    return default if value is None else value


def some_of(given: Parameters, name: str, allowed: Sequence[str]) -> tuple[str, ...]:
    """Return the given words, in the order of `allowed`."""
    values = {value for value in given.get(name, ()) if value}
    for value in values:
        if value not in allowed:
            raise AddressError(name, value, f"one of {', '.join(allowed)}")
    return tuple(value for value in allowed if value in values)


def whole(given: Parameters, name: str, *, least: int = 0) -> int | None:
    """Return a whole number, or None if it is missing."""
    value = text(given, name)
    if value is None:
        return None
    if not re.fullmatch(r"[0-9]{1,12}", value) or int(value) < least:
        raise AddressError(name, value, f"a whole number from {least}")
    return int(value)


def number(given: Parameters, name: str) -> float | None:
    """Return a number that is not negative, or None if it is missing."""
    value = text(given, name)
    if value is None:
        return None
    try:
        parsed = float(value)
    except ValueError:
        parsed = math.nan
    if not 0 <= parsed < math.inf:
        raise AddressError(name, value, "a number from 0")
    return parsed


class PageState:
    """State of a page, a dataclass: the address has each value under its field's name, as the field's type says, unless it is the default.

    Words are `Literal`; a subset may have the empty name; a whole number begins with its default, else with 0.
    """

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @classmethod
    def of(cls, given: Parameters) -> Self:
        """Return the state in an address.

        Raises:
            AddressError: If a value cannot be used.
        """
        kinds = get_type_hints(cls)
        read = {f.name: _value(given, f.name, kinds[f.name], f.default) for f in fields(cls)}
        return cls(**{name: value for name, value in read.items() if value is not None})

    def pairs(self) -> list[tuple[str, object]]:
        """Return names and values that differ from the default, in the order of the fields."""
        given = [(f.name, getattr(self, f.name), f.default) for f in fields(self)]
        return [
            (name, EMPTY if (name, value) == ("subset", "") else value)
            for name, value, default in given
            if value != default
        ]

    @property
    def query(self) -> str:
        """The state as the part of an address after `?`; values that are None, False or empty are left out, but not 0."""
        given = [(name, value) for name, value in self.pairs() if value is not False]
        kept = [(name, _written(value)) for name, value in given if value not in (None, "", ())]
        return urlencode(kept, doseq=True)

    def but(self, **changes: Any) -> Self:  # noqa: ANN401 - values of the fields
        """Return the state with other values, on the first page unless `page` is given."""
        first = {"page": 1} if "page" in self.__dataclass_fields__ else {}
        return replace(self, **first | changes)


def _value(given: Parameters, name: str, kind: Any, default: Any) -> Any:  # noqa: ANN401 - any type
    """Return the value of a field in an address, or None if it is missing."""
    if NoneType in get_args(kind):
        (kind,) = {*get_args(kind)} - {NoneType}
    if get_origin(kind) is Literal:
        return one_of(given, name, get_args(kind), default)
    if get_origin(kind) is tuple:
        return some_of(given, name, get_args(get_args(kind)[0]))
    if kind is bool:
        return one_of(given, name, ("yes",), "") == "yes"
    if kind is int:
        return whole(given, name, least=default or 0)
    if kind is float:
        return number(given, name)
    value = text(given, name)
    # A form sends its empty fields, too.
    return "" if (name, value) == ("subset", EMPTY) else value


def _written(value: object) -> str | list[str]:
    if isinstance(value, tuple):
        return [str(part) for part in value]
    if value is True:
        return "yes"
    return str(value).removesuffix(".0")
