"""Rows of regrade in logs of Inspect: columns that a log has no place for, in the metadata that an export writes and an import reads."""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from regrade.exchange.importing.record import Json
from regrade.records.columns import GENERATION_SCHEMA, TOKEN_COLUMNS, TRAJECTORY, of_json, to_json

KEY: Final = "regrade"
"""Name of the columns in a sample's metadata, and of the facts about the answer set in those of the log."""
SHOWN: Final = ("repeat", "text", "reasoning", TRAJECTORY, "error", "images")
"""Columns that are read from the places of the log in which people see them."""
COLUMNS: Final = tuple(
    name
    for name in GENERATION_SCHEMA.names
    if name not in (*SHOWN, *TOKEN_COLUMNS, "finished_at")  # too large, or of no use elsewhere
)
"""Columns in the metadata."""
_ASKED = ("sample_id", "question", "prompt", "prompt_kind", "target", "choices")
"""Columns that are no longer true if the log shows another question."""
_FIELDS = [GENERATION_SCHEMA.field(name) for name in COLUMNS]


def kept_columns(row: Mapping[str, Any], sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the metadata of a row's sample keep: the known columns, and a hash of the question as the sample shows it."""
    known = to_json({name: row[name] for name in COLUMNS if row[name] is not None})
    return {**known, "asked": _asked(sample, lambda text: text)}


def read_columns(sample: Mapping[str, Any], resolve: Callable[[str], str]) -> dict[str, Any] | None:
    """Return the columns in the metadata of a sample, None for the unknown ones; None if regrade did not write the sample.

    If the sample shows another question than was exported, its own question counts, and its id is computed from that.

    Args:
        sample: The sample.
        resolve: Replaces a reference to an attachment.

    Raises:
        ValueError: If a value is none of its column.
    """
    metadata = sample.get("metadata")
    kept = metadata.get(KEY) if isinstance(metadata, dict) else None
    if not isinstance(kept, dict):
        return None
    values = of_json(kept)
    found = {field.name: _checked(values.get(field.name), field) for field in _FIELDS}
    if kept.get("asked") != _asked(sample, resolve):
        return {name: value for name, value in found.items() if name not in _ASKED}
    return found


def _checked(value: Json, field: "pa.Field[Any]") -> Json:
    try:
        pa.array([value], field.type)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"'{field.name}' cannot be {value!r:.60}") from error
    if value is None and not field.nullable:
        raise ValueError(f"'{field.name}' is missing")
    return value


def _asked(sample: Mapping[str, Any], resolve: Callable[[str], str]) -> str:
    """Return a hash of the messages that were sent, target and choices; not of what Inspect adds when it writes a log again."""
    messages = [m for m in _listed(sample.get("messages")) if m.get("source") == "input"]
    sent = [[m.get("role"), [*map(str, _content(m.get("content"), resolve))]] for m in messages]
    asked = [sent, sample.get("target") or [], sample.get("choices") or []]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def _listed(messages: Json) -> list[dict[str, Any]]:
    return [m for m in messages if isinstance(m, dict)] if isinstance(messages, list) else []


def _content(content: Json, resolve: Callable[[str], str]) -> list[Any]:
    """Return the texts of a message, and the references to its images."""
    if isinstance(content, str):
        return [resolve(content)]
    return [
        resolve(part["text"]) if isinstance(part.get("text"), str) else part.get("image")
        for part in _listed(content)
    ]
