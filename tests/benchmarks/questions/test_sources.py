import hashlib
from pathlib import Path

import pytest

from regrade.benchmarks.questions.sources import LocalSource
from regrade.settings.errors import SourceError
from tests.benchmarks.files import write_jsonl

ROW = [{"q": "Why?"}]


def test_a_file_is_the_question_split(tmp_path: Path) -> None:
    source = LocalSource("demo", str(write_jsonl(tmp_path / "any.jsonl", ROW)), "test")

    assert source.rows("test", ["q"]) == ROW


def test_a_folder_has_a_file_for_each_split(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "test.jsonl", ROW)
    (tmp_path / "train.csv").write_text("q\nBecause.\n")
    (tmp_path / "test.txt").write_text("not data")
    source = LocalSource("demo", str(tmp_path), "test")

    assert source.rows("test", ["q"]) == ROW
    assert source.rows("train", ["q"]) == [{"q": "Because."}]


def test_the_revision_follows_from_splits_and_content_alone(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder, name in ((here, "test.jsonl"), (there, "questions.jsonl")):
        folder.mkdir()
        write_jsonl(folder / name, ROW)
        write_jsonl(folder / "train.jsonl", [{"q": "shot"}])
    content = hashlib.sha256((here / "test.jsonl").read_bytes()).hexdigest()
    by_folder = LocalSource("demo", str(here), "test")
    by_file = LocalSource("other", str(there / "questions.jsonl"), "test")

    assert by_folder.revision(["test"]) == by_file.revision(["test"])
    assert by_folder.revision(["test", "train"]) == by_file.revision(["test", "train"])
    assert by_folder.revision(["test"]) != by_folder.revision(["test", "train"])
    assert by_folder.revision(["test"]) == hashlib.sha256(f"test\t{content}\n".encode()).hexdigest()

    write_jsonl(here / "train.jsonl", [{"q": "another shot"}])
    assert by_folder.revision(["test"]) == by_file.revision(["test"])
    assert by_folder.revision(["test", "train"]) != by_file.revision(["test", "train"])


def test_a_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"source '.*absent': the file or folder does not exist"):
        LocalSource("demo", str(tmp_path / "absent"), "test")


def test_an_unknown_file_type_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.xlsx").write_bytes(b"x")

    with pytest.raises(SourceError, match=r"type of 'a.xlsx' is not supported; expected .parquet"):
        LocalSource("demo", str(tmp_path / "a.xlsx"), "test")


def test_a_folder_without_the_split_says_what_is_there(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "validation.jsonl", ROW)

    with pytest.raises(SourceError, match=r"lacks a file 'test' .* found validation.jsonl"):
        LocalSource("demo", str(tmp_path), "test").rows("test", ["q"])


def test_two_files_for_a_split_are_refused(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "test.jsonl", ROW)
    write_jsonl(tmp_path / "test.json", ROW)

    with pytest.raises(SourceError, match=r"any of 'test.json', 'test.jsonl'; keep only one"):
        LocalSource("demo", str(tmp_path), "test").rows("test", ["q"])


def test_worked_examples_that_are_missing_are_told_how_to_give(tmp_path: Path) -> None:
    source = LocalSource("demo", str(write_jsonl(tmp_path / "test.jsonl", ROW)), "test")

    with pytest.raises(
        SourceError, match=r"lacks a file 'train' with ending .* or set `prompt.n_shots=0`"
    ):
        source.revision(["test", "train"])


def test_questions_are_never_their_own_worked_examples(tmp_path: Path) -> None:
    path = str(write_jsonl(tmp_path / "train.jsonl", ROW))

    for source in (
        LocalSource("demo", path, "test"),
        LocalSource("demo", path, "test", files={"train": path}),
    ):
        with pytest.raises(SourceError, match="which has the questions"):
            source.rows("train", ["q"])


def test_a_reading_problem_names_benchmark_source_file_and_split(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", ROW)

    with pytest.raises(SourceError) as error:
        LocalSource("demo", str(path), "test").rows("test", ["x"])

    assert str(error.value).startswith(
        f"Benchmark 'demo', source '{path}': file 'a.jsonl' (split 'test'): there is no column 'x'"
    )
