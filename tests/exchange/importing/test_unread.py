from pathlib import Path
from typing import Any

from regrade.exchange.importing.files import SourceFile
from regrade.exchange.importing.record import Record
from tests.exchange.importing.writing import jsonl

ROW = {
    "id": 3,
    "doc": {"question": "2+2?", "answer": "4", "meta": {"a": 1, "b": {"c": 2}}},
    "list": [{"x": 1}],
    "nothing": None,
    "empty": {"also": [], "blank": ""},
    "no": False,
}


def unread_after(path: Path, *rows: Any) -> tuple[list[Record], SourceFile]:
    file = SourceFile(jsonl(path / "a.jsonl", *rows))
    return file.rows, file


def test_fields_that_hold_something_and_were_not_read_are_named(tmp_path: Path):
    [row], file = unread_after(tmp_path, ROW)
    assert file.unread == ["doc", "id", "list", "no"]
    row.text("doc.question")
    row.get("missing.too")
    row.get("list.0.x")
    assert file.unread == ["doc.answer", "doc.meta", "id", "no"]
    row.part("doc").part("meta").get("b.c")
    assert file.unread == ["doc.answer", "doc.meta.a", "id", "no"]
    row.get("doc")
    assert file.unread == ["id", "no"]
    assert row.value["id"] == 3
    assert file.unread == []


def test_what_one_row_has_and_another_reads_is_told_apart(tmp_path: Path):
    (first, _), file = unread_after(tmp_path, {"a": {"b": 1}}, {"a": "text", "c": 1})
    first.objects()["a"].get("b")
    assert file.unread == ["a", "c"]


def test_an_object_that_is_not_a_row_is_not_looked_at(tmp_path: Path):
    file = SourceFile(jsonl(tmp_path / "a.jsonl", ROW))
    file.record({"header": 1})
    assert file.unread == []
