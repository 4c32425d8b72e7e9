"""One object of a foreign file: its fields are checked where they are read, and errors say where they stand."""

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from regrade.errors import UserError

Json: TypeAlias = Any
"""What `json.loads` gives: nobody knows before it was looked at."""
_MAX_INT = 2**31 - 1
_MISSING = object()


class Record:
    """An object with named fields. A path `a.b.0` leads through objects and lists."""

    def __init__(self, value: dict[str, Any], error: Callable[[str], UserError]) -> None:
        self.value = value
        self.error = error

    def get(self, path: str) -> Json:
        """Return what is at a path; None where there is nothing."""
        found = self._at(path)
        return None if found is _MISSING else found

    def need(self, path: str) -> Json:
        """Return what is at a path.

        Raises:
            UserError: If there is no such field, naming those there are.
        """
        found = self._at(path)
        if found is _MISSING:
            known = ", ".join(f"'{clean(name)}'" for name in self.value) or "none"
            raise self.error(f"there is no field '{path}'. Fields: {known}.")
        return found

    def text(self, path: str) -> str | None:
        """Return a text; None where there is none.

        Raises:
            UserError: If it is anything but a text.
        """
        found = self.get(path)
        if found is None or isinstance(found, str):
            return found if found is None else clean(found)
        raise self.error(f"'{path}' should be a text, found {found!r:.60}.")

    def texts(self, path: str) -> tuple[str, ...] | None:
        """Return a list of texts; None where there is none.

        Raises:
            UserError: If it is anything but a list of texts.
        """
        found = self.get(path)
        if found is None:
            return None
        if isinstance(found, list) and all(isinstance(text, str) for text in found):
            return tuple(clean(text) for text in found)
        raise self.error(f"'{path}' should be a list of texts, found {found!r:.60}.")

    def integer(self, path: str) -> int | None:
        """Return a whole number from 0 on; None where there is none.

        Raises:
            UserError: If it is anything else.
        """
        found = self.get(path)
        if found is None:
            return None
        if isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= _MAX_INT:
            return found
        raise self.error(f"'{path}' should be a number from 0 to {_MAX_INT}, found {found!r:.60}.")

    def part(self, path: str) -> "Record":
        """Return an object at a path; an empty one where there is none."""
        found = self.get(path)
        if found is None:
            return Record({}, self.error)
        if not isinstance(found, dict):
            raise self.error(f"'{path}' should be an object, found {found!r:.60}.")
        return Record(found, lambda problem: self.error(f"in '{path}', {problem}"))

    def parts(self, path: str) -> "list[Record]":
        """Return the objects of a list at a path; none where there is no list."""
        found = self.get(path)
        if found is None:
            return []
        if not isinstance(found, list) or not all(isinstance(part, dict) for part in found):
            raise self.error(f"'{path}' should be a list of objects, found {found!r:.60}.")
        return [
            Record(part, lambda problem: self.error(f"in '{path}', {problem}")) for part in found
        ]

    def _at(self, path: str) -> Json:
        if path in self.value:  # a column whose name has a dot in it
            return self.value[path]
        found: Any = self.value
        for step in path.split("."):
            if isinstance(found, dict) and step in found:
                found = found[step]
            elif isinstance(found, list) and step.isdecimal() and int(step) < len(found):
                found = found[int(step)]
            else:
                return _MISSING
        return found


def clean(text: str) -> str:
    """Return a text with half surrogate pairs, which no UTF-8 can hold, replaced by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def as_json(value: object) -> str:
    """Return a value as JSON text with sorted keys."""
    return clean(json.dumps(value, ensure_ascii=False, sort_keys=True, default=str))
