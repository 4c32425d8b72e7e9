"""Values in an address: read strictly, with errors that name the value and what was expected."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
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


def subset(given: Parameters) -> str | None:
    """Return the name of a subset, or None; `EMPTY` is the empty name, because a form sends its empty fields too."""
    name = text(given, "subset")
    return "" if name == EMPTY else name


def one_of(given: Parameters, name: str, allowed: Sequence[str], default: str) -> str:
    """Return one of the allowed words."""
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


def query(values: Iterable[tuple[str, object]]) -> str:
    """Return the part of an address after `?`; values that are None, False or empty are left out, but not 0."""
    given = [(name, value) for name, value in values if value is not False]
    kept = [(name, _written(value)) for name, value in given if value not in (None, "", ())]
    pairs = [
        (name, part)
        for name, value in kept
        for part in (value if isinstance(value, list) else [value])
    ]
    return urlencode(pairs)


def _written(value: object) -> str | list[str]:
    if isinstance(value, tuple):
        return [str(part) for part in value]
    if value is True:
        return "yes"
    return f"{value:g}" if isinstance(value, float) else str(value)
