"""Row groups of shards: small enough that one answer is read without decoding all others."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from regrade.answers import parquet
from regrade.answers.parquet import GROUP_ROWS, parquet_bytes, seal_table
from regrade.records.columns import GENERATION_SCHEMA
from tests.builders import row


def groups(path: Path) -> list[tuple[int, int]]:
    """Rows and bytes of each row group."""
    metadata = pq.read_metadata(path)
    found = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    return [(group.num_rows, group.total_byte_size) for group in found]


def long_answers(lengths: list[int]) -> pa.Table:
    rows = [row(n, text=f"{n} " * (length // 5)) for n, length in enumerate(lengths)]
    return pa.Table.from_pylist(rows, GENERATION_SCHEMA)


@pytest.mark.parametrize(
    "lengths",
    [[10_000] * 300, [10] * 900 + [100_000] * 30, [3_000_000, 10, 10]],
    ids=["long", "a few very long at the end", "one larger than a group"],
)
def test_a_row_group_is_bounded_by_bytes_and_no_row_is_lost(
    tmp_path: Path, lengths: list[int], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(parquet, "GROUP_BYTES", 2**20)
    table = long_answers(lengths)
    sealed = seal_table(table, tmp_path / "sealed-00000.parquet")

    assert sealed.rows == len(lengths)
    assert pq.read_table(sealed.path).equals(table)
    start = 0
    assert len(groups(sealed.path)) > 1
    for rows, _ in groups(sealed.path):
        assert rows == 1 or table.slice(start, rows).nbytes <= 2 * 2**20
        start += rows
    assert start == len(lengths)


def test_short_answers_share_a_row_group(tmp_path: Path):
    sealed = seal_table(long_answers([50] * (GROUP_ROWS + 1)), tmp_path / "sealed-00000.parquet")

    assert [rows for rows, _ in groups(sealed.path)] == [GROUP_ROWS, 1]


def test_a_shard_has_a_page_index(tmp_path: Path):
    sealed = seal_table(long_answers([50] * 10), tmp_path / "sealed-00000.parquet")

    column = pq.read_metadata(sealed.path).row_group(0).column(0)
    assert column.has_column_index
    assert column.has_offset_index


def test_a_table_without_rows_is_a_readable_file(tmp_path: Path):
    path = tmp_path / "empty.parquet"
    path.write_bytes(parquet_bytes(GENERATION_SCHEMA.empty_table()))

    assert pq.read_table(path).schema.equals(GENERATION_SCHEMA, check_metadata=True)


def test_the_name_of_a_sealed_file_tells_its_session(tmp_path: Path):
    table = long_answers([50])
    named = seal_table(table, tmp_path / "sealed-00000-0123456789ab.parquet")
    old = seal_table(table, tmp_path / "sealed-00001.parquet")

    assert (named.session, old.session) == ("0123456789ab", None)
