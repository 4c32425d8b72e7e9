"""Fields of a file's rows that its reader did not read."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeAlias

Keys: TypeAlias = tuple[str, ...]
"""Path to a field of a row: names of objects, the outermost first."""
MAX_FIELDS = 10_000
"""Most fields of a file that are collected."""
_MAX_DEPTH = 4
"""Greatest depth of objects whose fields are collected."""


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
