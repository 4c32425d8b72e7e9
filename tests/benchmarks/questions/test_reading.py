import logging
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from regrade.benchmarks.questions.reading import UnreadableError, read_file
from tests.benchmarks.files import write_jsonl, write_parquet

ROWS = [{"q": "Why?", "a": "None"}, {"q": "A\nB", "a": "007"}]


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "json", "csv"])
def test_every_file_type_gives_the_same_rows(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"rows.{kind}"
    if kind == "parquet":
        write_parquet(path, ROWS)
    elif kind == "jsonl":
        write_jsonl(path, ROWS)
    elif kind == "json":
        path.write_text('[{"q": "Why?", "a": "None"}, {"q": "A\\nB", "a": "007"}]')
    else:
        path.write_text('q,a\nWhy?,None\n"A\nB",007\n')

    assert read_file(path, ["q", "a"]) == ROWS
    assert read_file(path, ["a"], head=1) == [{"a": "None"}]


def test_csv_values_stay_text(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b,c\n1.50,NaN,\nNA,null,true\n")

    assert read_file(path, ["a", "b", "c"]) == [
        {"a": "1.50", "b": "NaN", "c": ""},
        {"a": "NA", "b": "null", "c": "true"},
    ]


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{"q": "old"}])
    stat = path.stat()
    assert read_file(path, ["q"]) == [{"q": "old"}]

    write_jsonl(path, [{"q": "new"}])
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # same size, same time

    assert read_file(path, ["q"]) == [{"q": "new"}]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.parquet", b"PAR1 nonsense", "cannot be read as parquet: Parquet magic bytes"),
        ("a.parquet", b"", "cannot be read as parquet"),
        ("a.jsonl", b'{"q": 1\n{"q"', "cannot be read as jsonl: JSON parse error"),
        ("a.jsonl", b'{"q": "\xe9"}\n', "cannot be read as jsonl: 'utf-8' codec"),
        ("a.json", b"[]", "cannot be read as json"),
        ("a.csv", b"q,a\nWhat is 1,000 + 1?,1001\n", "line 2 has 3 values, but the header names 2"),
        ("a.csv", b"q,a\nWhy?\n", "line 2 has 1 values, but the header names 2"),
        ("a.jsonl", b"", "holds no rows"),
        ("a.jsonl", b"\n\n", "holds no rows"),
        ("a.csv", b"", "holds no rows"),
        ("a.csv", b"q,a\n", "holds no rows"),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, content: bytes, problem: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)

    with pytest.raises(UnreadableError) as error:
        read_file(path, ["q"])

    assert problem in str(error.value)
    assert capfd.readouterr() == ("", "")


def test_a_parquet_file_without_rows_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"q": pa.array([], pa.string())}), tmp_path / "a.parquet")

    with pytest.raises(UnreadableError, match="holds no rows"):
        read_file(tmp_path / "a.parquet", ["q"])


def test_missing_columns_are_named_with_those_there(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", ROWS)

    with pytest.raises(UnreadableError, match="no column 'question'; found 'q', 'a'"):
        read_file(path, ["question", "a"])


def test_text_that_the_json_reader_makes_dates_of_is_refused(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{"q": "When?", "a": "1945-05-08"}])

    with pytest.raises(UnreadableError, match="column 'a' holds texts that look like dates"):
        read_file(path, ["q", "a"])
    assert read_file(path, ["q"]) == [{"q": "When?"}]


def test_reading_says_nothing_and_leaves_datasets_as_it_was(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import datasets
    from datasets import config
    from datasets.utils import logging as datasets_logging

    datasets.enable_progress_bars()
    datasets_logging.set_verbosity(logging.INFO)
    try:
        read_file(write_jsonl(tmp_path / "a.jsonl", ROWS), ["q"])

        assert capfd.readouterr() == ("", "")
        assert not datasets.are_progress_bars_disabled()
        assert datasets_logging.get_verbosity() == logging.INFO
        assert config.HF_UPDATE_DOWNLOAD_COUNTS
    finally:
        datasets_logging.set_verbosity_warning()
