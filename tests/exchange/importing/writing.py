"""Write test files in the formats of other tools."""

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from regrade.exchange.importing.base import FormatName, ImportedSet, TableOptions
from regrade.exchange.importing.files import SourceFile
from regrade.exchange.importing.importer import detect, load_reader


def jsonl(path: Path, *rows: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def document(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def archive(path: Path, members: Mapping[str, object]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content if isinstance(content, bytes) else json.dumps(content))
    return path


def parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), path)
    return path


def read(path: Path, options: TableOptions | None = None) -> ImportedSet:
    """Read a file in its detected format, which holds one answer set."""
    [found] = read_sets(path, options)
    return found


def read_sets(path: Path, options: TableOptions | None = None) -> list[ImportedSet]:
    """Read a file in its detected format."""
    file = SourceFile(path)
    format_name = detect(file)
    assert format_name is not None
    return sets(format_name, file, options or TableOptions())


def sets(
    format_name: FormatName, file: SourceFile, options: TableOptions | None = None
) -> list[ImportedSet]:
    """Read a file in a format."""
    found = load_reader(format_name)(file, options or TableOptions())
    return found if isinstance(found, list) else [found]
