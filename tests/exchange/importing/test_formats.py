from pathlib import Path
from typing import get_args

import pytest

from regrade.exchange.importing.base import FormatName
from regrade.exchange.importing.files import ImportFileError, SourceFile
from regrade.exchange.importing.importer import detect, load_reader
from regrade.settings.errors import UnknownNameError
from tests.exchange.importing.writing import document, jsonl


def test_every_format_has_a_reader():
    for name in get_args(FormatName):
        assert callable(load_reader(name))


def test_an_unknown_format_is_answered_with_the_closest():
    with pytest.raises(UnknownNameError, match="Did you mean 'lm-eval'"):
        load_reader("lm_eval")  # type: ignore[arg-type]


def test_what_describes_itself_in_no_known_way_is_of_no_format(tmp_path: Path):
    assert detect(SourceFile(jsonl(tmp_path / "a.jsonl", {"question": "q", "answer": "a"}))) is None
    assert detect(SourceFile(document(tmp_path / "a.json", {"a": 1}))) is None
    assert detect(SourceFile(document(tmp_path / "b.json", []))) is None
    (tmp_path / "LICENSE").write_text("MIT")
    assert detect(SourceFile(tmp_path / "LICENSE")) is None


def test_a_pickle_is_not_even_opened(tmp_path: Path):
    (tmp_path / "a.pkl").write_bytes(b"\x80\x04.")
    assert detect(SourceFile(tmp_path / "a.pkl")) is None


def test_a_damaged_file_of_a_known_ending_is_an_error(tmp_path: Path):
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(ImportFileError, match="not JSON"):
        detect(SourceFile(tmp_path / "a.json"))
