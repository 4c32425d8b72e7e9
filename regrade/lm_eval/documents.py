"""Documents of tasks as JSON text, from which scoring reads them later.

A task's functions must see the same document in both cases. A document that JSON would change is therefore refused:
JSON has no tuples, bytes, images or dates, and its keys are texts.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from regrade.settings.errors import SettingsError


def document_text(document: Mapping[str, Any], task: str, doc_id: int) -> str:
    """Return a document as JSON text.

    Args:
        document: Document of a task, after its `process_docs`.
        task: Name of the task, for messages.
        doc_id: Number of the document, for messages.

    Raises:
        SettingsError: If JSON cannot hold a value of the document. The message names the first such value.
    """
    unfit = next(_unfit(document, ""), None)
    if unfit is not None:
        raise SettingsError(
            f"Task '{task}' cannot be run: document {doc_id} has {unfit}, which JSON cannot hold, so that its answers "
            "could not be scored later."
        )
    return json.dumps(document, ensure_ascii=False)


def document_of(text: str) -> dict[str, Any]:
    """Return the document of `document_text`."""
    document: dict[str, Any] = json.loads(text)
    return document


def _unfit(value: object, place: str) -> Iterator[str]:
    """Yield the places and types of values that JSON would change."""
    if value is None or type(value) in (
        bool,
        int,
        float,
        str,
    ):  # Python's json has NaN and infinity
        return
    if type(value) is list:
        for index, member in enumerate(value):
            yield from _unfit(member, f"{place}[{index}]")
    elif type(value) is dict:
        for key, member in value.items():
            if type(key) is not str:
                yield f"the key {key!r} in '{place or '.'}'"
                return
            yield from _unfit(member, f"{place}.{key}" if place else key)
    else:
        yield f"a value of type '{type(value).__name__}' in '{place or '.'}'"
