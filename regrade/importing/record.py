"""Access to an untrusted JSON object: fields are checked when they are read, and errors name file and row."""

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from regrade.errors import UserError

Json: TypeAlias = Any
"""Unchecked result of `json.loads`."""
_MAX_INT = 2**31 - 1
_MISSING = object()


class Record:
    """A JSON object. A path `a.b.0` leads through objects and lists.

    Args:
        value: The object.
        error: Makes an error that names file and row from a description of the problem.
    """

    def __init__(self, value: dict[str, Any], error: Callable[[str], UserError]) -> None:
        self.value = value
        self.error = error

    def get(self, path: str) -> Json:
        """Value at a path; None if it does not exist."""
        value = self._at(path)
        return None if value is _MISSING else value

    def need(self, path: str) -> Json:
        """Value at a path that must exist.

        Raises:
            UserError: If it does not exist; the message lists the fields.
        """
        value = self._at(path)
        if value is _MISSING:
            known = ", ".join(f"'{clean(name)}'" for name in self.value) or "none"
            raise self.error(f"there is no field '{path}'. Fields: {known}.")
        return value

    def text(self, path: str) -> str | None:
        """Text at a path; None if it does not exist.

        Raises:
            UserError: If the value is not a text.
        """
        value = self.get(path)
        if value is None or isinstance(value, str):
            return value and clean(value)
        raise self.error(f"'{path}' should be a text, found {value!r:.60}.")

    def texts(self, path: str) -> tuple[str, ...] | None:
        """List of texts at a path; None if it does not exist.

        Raises:
            UserError: If the value is not a list of texts.
        """
        value = self.get(path)
        if value is None:
            return None
        if isinstance(value, list) and all(isinstance(text, str) for text in value):
            return tuple(clean(text) for text in value)
        raise self.error(f"'{path}' should be a list of texts, found {value!r:.60}.")

    def integer(self, path: str) -> int | None:
        """Integer from 0 to 2^31 - 1 at a path; None if it does not exist.

        Raises:
            UserError: If the value is anything else.
        """
        value = self.get(path)
        if value is None:
            return None
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_INT:
            return value
        raise self.error(f"'{path}' should be a number from 0 to {_MAX_INT}, found {value!r:.60}.")

    def part(self, path: str) -> "Record":
        """Object at a path; empty if it does not exist."""
        value = self.get(path)
        if value is None:
            return Record({}, self.error)
        if not isinstance(value, dict):
            raise self.error(f"'{path}' should be an object, found {value!r:.60}.")
        return Record(value, lambda problem: self.error(f"in '{path}', {problem}"))

    def parts(self, path: str) -> "list[Record]":
        """Objects of a list at a path; empty if it does not exist."""
        value = self.get(path)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(part, dict) for part in value):
            raise self.error(f"'{path}' should be a list of objects, found {value!r:.60}.")
        return [
            Record(part, lambda problem: self.error(f"in '{path}', {problem}")) for part in value
        ]

    def _at(self, path: str) -> Json:
        if path in self.value:  # a column whose name contains a dot
            return self.value[path]
        value: Any = self.value
        for step in path.split("."):
            if isinstance(value, dict) and step in value:
                value = value[step]
            elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
                value = value[int(step)]
            else:
                return _MISSING
        return value


def clean(text: str) -> str:
    """Replace unpaired surrogates, which UTF-8 cannot encode, with U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def as_json(value: object) -> str:
    """Serialise a value as JSON with sorted keys."""
    return clean(json.dumps(value, ensure_ascii=False, sort_keys=True, default=str))
