"""Access to an untrusted JSON object: fields are checked when they are read, errors name file and row, and what was not read is known."""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from regrade.records.characters import whole_characters
from regrade.settings.errors import UserError

Json: TypeAlias = Any
"""Unchecked result of `json.loads`."""
Keys: TypeAlias = tuple[str, ...]
"""Path to a field of a row: names of objects, the outermost first."""
MAX_FIELDS = 10_000
"""Most fields of a file that are collected."""
_MAX_DEPTH = 4
"""Greatest depth of objects whose fields are collected."""
_MAX_INT = 2**31 - 1
_MISSING = object()


class Record:
    """A JSON object. The path `a.0.b` or `a[0].b` leads through objects and lists; `a.*.b` is the list of all `b`.

    Args:
        value: The object.
        error: Makes an error that names file and row from a description of the problem.
        read: Paths of the fields that were read so far; shared by all rows of a file. Nothing is noted if None.
        place: Path of this object in its row.
    """

    def __init__(
        self,
        value: dict[str, Any],
        error: Callable[[str], UserError],
        read: set[Keys] | None = None,
        place: Keys = (),
    ) -> None:
        self._value = value
        self.error = error
        self._read, self._place = read, place

    @property
    def value(self) -> dict[str, Any]:
        """The whole object; all its fields count as read."""
        self._note(())
        return self._value

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fields."""
        return tuple(self._value)

    def get(self, path: str) -> Json:
        """Value at a path; None if it does not exist."""
        value = self._at(path)
        return None if value is _MISSING else value

    def peek(self, path: str) -> Json:
        """Value at a path, as `get`; it does not count as read."""
        value, _, _ = self._find(path)
        return None if value is _MISSING else value

    def need(self, path: str, given_as: str = "") -> Json:
        """Value at a path that must exist.

        Args:
            path: The path.
            given_as: Option that gave the path, for the message.

        Raises:
            UserError: If it does not exist; the message lists the fields.
        """
        value = self._at(path)
        if value is _MISSING:
            known = ", ".join(f"'{whole_characters(name)}'" for name in self._value) or "none"
            option = f"`{given_as} {path}`: " if given_as else ""
            raise self.error(f"{option}there is no field '{path}'. Fields: {known}.")
        return value

    def text(self, path: str) -> str | None:
        """Text at a path; None if it does not exist.

        Raises:
            UserError: If the value is not a text.
        """
        value = self.get(path)
        if value is None or isinstance(value, str):
            return value and whole_characters(value)
        raise self.error(f"'{path}' should be a text, found {value!r:.60}.")

    def texts(self, path: str) -> tuple[str, ...] | None:
        """List of texts at a path; None if it does not exist.

        Raises:
            UserError: If the value is not a list of texts.
        """
        found = self.answers(path)
        texts = None if found is None else tuple(text for text in found if text is not None)
        if texts is not None and texts != found:
            raise self._no_texts(path)
        return texts

    def answers(self, path: str) -> tuple[str | None, ...] | None:
        """List of texts at a path, as `texts`, in which null stands for an answer that is missing."""
        value = self.get(path)
        if value is None:
            return None
        if isinstance(value, list) and all(text is None or isinstance(text, str) for text in value):
            return tuple(text and whole_characters(text) for text in value)
        raise self._no_texts(path)

    def _no_texts(self, path: str) -> UserError:
        return self.error(f"'{path}' should be a list of texts, found {self.peek(path)!r:.60}.")

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
        """Object at a path; empty if it does not exist.

        Raises:
            UserError: If the value is not an object.
        """
        value, steps, in_list = self._find(path)
        if value is _MISSING or value is None:
            return Record({}, self.error)
        if not isinstance(value, dict):
            raise self.error(f"'{path}' should be an object, found {value!r:.60}.")
        if in_list:
            self._note(steps)
        return self._child(path, value, None if in_list else steps)

    def parts(self, path: str) -> "list[Record]":
        """Objects of a list at a path; empty if it does not exist.

        Raises:
            UserError: If the value is not a list of objects.
        """
        value = self.get(path)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(part, dict) for part in value):
            raise self.error(f"'{path}' should be a list of objects, found {value!r:.60}.")
        return [self._child(path, part, None) for part in value]

    def objects(self) -> "dict[str, Record]":
        """The fields that are objects, by name."""
        return {
            name: self._child(name, value, (name,))
            for name, value in self._value.items()
            if isinstance(value, dict)
        }

    def _child(self, path: str, value: dict[str, Any], steps: Keys | None) -> "Record":
        read = None if steps is None else self._read
        return Record(
            value,
            lambda problem: self.error(f"in '{path}', {problem}"),
            read,
            (*self._place, *(steps or ())),
        )

    def _at(self, path: str) -> Json:
        value, steps, _ = self._find(path)
        if value is not _MISSING:
            self._note(steps)
        return value

    def _note(self, steps: Keys) -> None:
        if self._read is not None:
            self._read.add((*self._place, *steps))

    def _find(self, path: str) -> tuple[Json, Keys, bool]:
        """Value at a path; the names that lead to it, or to the first list on the way; True if there is a list."""
        if path in self._value:  # a column whose name contains a dot
            return self._value[path], (path,), False
        steps = re.sub(r"\[([0-9]+|\*)\]", r".\1", path).split(".")
        value: Any = self._value
        names: list[str] = []
        while steps and isinstance(value, dict) and steps[0] in value:
            names.append(steps[0])
            value = value[steps.pop(0)]
        in_list = bool(steps) and isinstance(value, list)
        if steps:
            value = _in_list(value, steps) if in_list else _MISSING
        return value, tuple(names), in_list


def _in_list(value: Json, steps: Sequence[str]) -> Json:
    """Value at the steps below a list."""
    for number, step in enumerate(steps):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step == "*":
            below = [_in_list(element, steps[number + 1 :]) for element in value]
            if all(found is _MISSING for found in below):
                return _MISSING
            return [None if found is _MISSING else found for found in below]
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return _MISSING
    return value


def as_json(value: object) -> str:
    """Serialise a value as JSON with sorted keys."""
    return whole_characters(json.dumps(value, ensure_ascii=False, sort_keys=True, default=str))


def leaves(value: Mapping[str, Any], place: Keys = ()) -> Iterator[Keys]:
    """Yield the paths of the fields with a value; for an object its fields, down to `_MAX_DEPTH` names."""
    for name, field in value.items():
        path = (*place, name)
        if isinstance(field, dict) and len(path) < _MAX_DEPTH:
            yield from leaves(field, path)
        elif field not in (None, "", [], {}):
            yield path


def unread(present: Collection[Keys], read: Collection[Keys]) -> list[str]:
    """Names such as `doc.answer` of fields that were not read; an object without any read field is one name.

    Args:
        present: Paths from `leaves`, of all rows.
        read: Paths that were read; reading an object as a whole reads all its fields.
    """
    entered = {path[:length] for path in read for length in range(len(path) + 1)}
    names = set()
    for path in present:
        prefixes = [path[:length] for length in range(1, len(path) + 1)]
        if () not in read and not any(prefix in read for prefix in prefixes):
            names.add(".".join(next((p for p in prefixes if p not in entered), path)))
    return sorted(names)
