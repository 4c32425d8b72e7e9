"""Formats that can be imported, and their detection."""

from collections.abc import Sequence
from importlib import import_module
from typing import Final, cast

from regrade.errors import UnknownNameError
from regrade.importing.base import FormatName, Reader
from regrade.importing.files import SourceFile
from regrade.importing.record import Json

_MODULES: Final[dict[FormatName, str]] = {
    "lm-eval": "lm_eval",
    "lighteval": "lighteval",
    "inspect": "inspect_log",
    "opencompass": "opencompass",
    "zeroeval": "zeroeval",
    "mmlu-pro": "mmlu_pro",
    "handbook": "handbook",
    "table": "table",
}
"""Module of this package whose `read` is the format's reader."""
_BY_COLUMNS: Final[tuple[tuple[FormatName, frozenset[str]], ...]] = (
    ("lm-eval", frozenset({"doc_id", "doc", "resps"})),
    ("lighteval", frozenset({"doc", "model_response", "metric"})),
    ("lighteval", frozenset({"__doc__", "__model_response__", "__metric__"})),
    ("lighteval", frozenset({"full_prompt", "predictions", "metrics"})),
    ("zeroeval", frozenset({"session_id", "model_input", "output", "generator"})),
    ("mmlu-pro", frozenset({"question", "options", "pred", "generated_text"})),
    ("handbook", frozenset({"prompt", "answers"})),
)
"""Columns by which a table's format is detected."""
_TABLES = ("parquet", "jsonl", "zip")


def format_names() -> tuple[FormatName, ...]:
    """Names of all formats."""
    return tuple(_MODULES)


def load_reader(name: FormatName) -> Reader:
    """Import the reader of a format.

    Raises:
        UnknownNameError: If the format does not exist.
    """
    if name not in _MODULES:
        raise UnknownNameError("format", name, format_names())
    return cast("Reader", import_module(f"regrade.importing.{_MODULES[name]}").read)


def detect(file: SourceFile) -> FormatName | None:
    """Detect the format of a file by its content; None if it matches no format.

    Raises:
        ImportFileError: If the content does not match the file's extension.
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
