"""Single rows of a Parquet file: the right ones, in the given order, without decoding the other row groups."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from regrade.answers.parquet import TAKE_ROWS, ParquetReader
from regrade.records.columns import GENERATION_SCHEMA
from regrade.settings.errors import DamagedAnswersError
from tests.builders import row

ROWS, GROUP = 5_000, 2_000


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    table = pa.Table.from_pylist([row(number) for number in range(ROWS)], schema=GENERATION_SCHEMA)
    pq.write_table(table, path, row_group_size=GROUP)
    return path


def reader(file: Path) -> ParquetReader:
    return ParquetReader("rows", file, GENERATION_SCHEMA, ["index", "text", "question"])


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [0],
        [ROWS - 1],
        [TAKE_ROWS, TAKE_ROWS - 1],
        [GROUP, GROUP - 1, 0, ROWS - 1],
        [7, 7, 3, 7],
        list(range(ROWS - 1, 0, -97)),
    ],
)
def test_rows_come_in_the_given_order(file: Path, rows: list[int]):
    taken = reader(file).take(rows)
    assert taken["index"].to_pylist() == rows
    assert taken["text"].to_pylist() == [f"It is {number}.\n#### {number}" for number in rows]
    assert taken["question"].to_pylist() == [None] * len(rows)


def test_a_reader_of_other_columns_checks_them_and_reads_the_same_file(file: Path, tmp_path: Path):
    other = reader(file).of(["repeat", "target"])
    assert other.take([3]).column_names == ["repeat", "target"]
    assert reader(file).take([3]).column_names == ["index", "text", "question"]

    table = pq.read_table(file)
    wrong = table.set_column(table.column_names.index("target"), "target", table["index"])
    pq.write_table(wrong, tmp_path / "wrong.parquet")
    with pytest.raises(DamagedAnswersError, match="column 'target' should be string"):
        reader(tmp_path / "wrong.parquet").of(["target"])


def test_a_damaged_row_group_is_only_met_by_those_who_need_it(file: Path, tmp_path: Path):
    metadata = pq.ParquetFile(file).metadata
    place = metadata.row_group(2).column(GENERATION_SCHEMA.get_field_index("text"))
    content = bytearray(file.read_bytes())
    start = place.dictionary_page_offset or place.data_page_offset
    content[start : start + place.total_compressed_size] = b"x" * place.total_compressed_size
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(content)
    assert reader(broken).take([5])["index"].to_pylist() == [5]
    with pytest.raises(DamagedAnswersError):
        reader(broken).take([2 * GROUP + 5])
