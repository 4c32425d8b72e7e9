"""The formats that can be imported, and how a file is told to be of one."""

from collections.abc import Sequence
from importlib import import_module
from typing import Final, cast

from regrade.errors import UnknownNameError
from regrade.importing.base import FormatName, Reader
from regrade.importing.files import SourceFile
from regrade.importing.record import Json

_READERS: Final[dict[FormatName, str]] = {
    "lm-eval": "regrade.importing.lm_eval:read",
    "lighteval": "regrade.importing.lighteval:read",
    "inspect": "regrade.importing.inspect_log:read",
    "opencompass": "regrade.importing.opencompass:read",
    "zeroeval": "regrade.importing.zeroeval:read",
    "mmlu-pro": "regrade.importing.mmlu_pro:read",
    "handbook": "regrade.importing.handbook:read",
    "table": "regrade.importing.table:read",
}
_BY_COLUMNS: Final[tuple[tuple[FormatName, frozenset[str]], ...]] = (
    ("lm-eval", frozenset({"doc_id", "doc", "resps"})),
    ("lighteval", frozenset({"doc", "model_response", "metric"})),
    ("lighteval", frozenset({"__doc__", "__model_response__", "__metric__"})),
    ("lighteval", frozenset({"full_prompt", "predictions", "metrics"})),
    ("zeroeval", frozenset({"session_id", "model_input", "output", "generator"})),
    ("mmlu-pro", frozenset({"question", "options", "pred", "generated_text"})),
    ("handbook", frozenset({"prompt", "answers"})),
)
_TABLES = ("parquet", "jsonl", "zip")


def format_names() -> tuple[FormatName, ...]:
    """Return the names of all formats."""
    return tuple(_READERS)


def load_reader(name: FormatName) -> Reader:
    """Return the function that reads a format.

    Raises:
        UnknownNameError: If there is no such format.
    """
    if name not in _READERS:
        raise UnknownNameError("format", name, format_names())
    module, _, function = _READERS[name].partition(":")
    return cast("Reader", getattr(import_module(module), function))


def detect(file: SourceFile) -> FormatName | None:
    """Return the format that a file is of; None where it is none of those that describe themselves.

    Raises:
        ImportFileError: If the file has an ending that is read, but is not what the ending says.
    """
    if file.kind == "eval":
        return "inspect"
    if file.kind == "json":
        return _of_document(file.document)
    return _of_columns(file.columns) if file.kind in _TABLES else None


def _of_document(document: Json) -> FormatName | None:
    if isinstance(document, list):
        first = document[0] if document else None
        return _of_columns(tuple(first)) if isinstance(first, dict) else None
    if not isinstance(document, dict):
        return None
    if {"version", "status", "eval"} <= document.keys():
        return "inspect"
    first = document.get("0")
    return "opencompass" if isinstance(first, dict) and "prediction" in first else None


def _of_columns(columns: Sequence[str]) -> FormatName | None:
    return next((name for name, needed in _BY_COLUMNS if needed <= set(columns)), None)
