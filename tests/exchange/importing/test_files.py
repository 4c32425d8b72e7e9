import gzip
import json
import zipfile
import zlib
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from regrade.exchange.importing import files
from regrade.exchange.importing.files import ImportFileError, SourceFile, finite
from tests.exchange.importing.writing import archive, jsonl

MIB = 2**20


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_BYTES", 3 * MIB)
    monkeypatch.setattr(files, "MAX_ROW_BYTES", MIB)


def refused(path: Path, *says: str) -> None:
    with pytest.raises(ImportFileError) as caught:
        _ = SourceFile(path).rows
    for part in (str(path), *says):
        assert part in str(caught.value)


def test_a_path_is_shown_as_it_was_given_and_has_the_folders_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = jsonl(tmp_path / "results" / "a.jsonl", {"a": 1})
    monkeypatch.chdir(path.parent)
    for given in (Path("a.jsonl"), Path("../results/a.jsonl")):
        file = SourceFile(given)
        assert (file.name, file.path.parent.name) == (str(given), "results")
    beside = SourceFile(Path("a.jsonl")).other(tmp_path / "b.jsonl")
    assert beside.name == str(tmp_path / "b.jsonl")


def test_rows_come_from_json_lines_lists_and_parquet(tmp_path: Path):
    rows = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    (tmp_path / "list.json").write_text(json.dumps(rows))
    with gzip.open(tmp_path / "packed.jsonl.gz", "wt") as packed:
        packed.write("\n\n".join(json.dumps(row) for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "table.parquet")

    for name in ("list.json", "packed.jsonl.gz", "table.parquet"):
        file = SourceFile(tmp_path / name)
        assert [row.value for row in file.rows] == rows
        assert file.columns == ("a", "b")


def test_a_line_that_is_not_json_is_named_with_its_row(tmp_path: Path):
    path = jsonl(tmp_path / "a.jsonl", {"a": 1}, {"a": 2})
    path.write_text(path.read_text() + '{"a": \n')
    refused(path, "row 2", "not JSON")


@pytest.mark.parametrize(
    "content", [b'{"a": "\xff"}', b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}"]
)
def test_hostile_json_is_refused_by_row(tmp_path: Path, content: bytes):
    (tmp_path / "a.jsonl").write_bytes(b'{"a": 1}\n' + content + b"\n")
    refused(tmp_path / "a.jsonl", "row 1")


def test_damaged_members_and_dates_that_python_has_not_are_refused(tmp_path: Path):
    packed = tmp_path / "a.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_LZMA) as file:
        file.writestr("a.json", json.dumps([{"a": number} for number in range(1000)]))
    content = bytearray(packed.read_bytes())
    content[60:90] = bytes(30)
    packed.write_bytes(content)
    refused(packed, "cannot be read")
    table = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": pa.array([10**9], pa.int32()).cast(pa.date32())}), table)
    refused(table, "not Parquet that can be read")


def test_a_row_that_is_no_object_is_named(tmp_path: Path):
    refused(jsonl(tmp_path / "a.jsonl", {"a": 1}, ["a"]), "row 1", "an object")


def test_a_file_without_rows_says_so(tmp_path: Path):
    refused(jsonl(tmp_path / "a.jsonl"), "no rows")


def test_a_file_that_is_not_there_says_so(tmp_path: Path):
    refused(tmp_path / "a.jsonl", "No such file")


@pytest.mark.usefixtures("limits")
def test_a_line_without_end_is_not_read_to_its_end(tmp_path: Path):
    (tmp_path / "a.jsonl").write_bytes(b'{"a": 1}\n{"a": "' + b"x" * (2 * MIB))
    refused(tmp_path / "a.jsonl", "row 1", "more than 1 MiB")


@pytest.mark.usefixtures("limits")
def test_a_gzip_bomb_is_not_unpacked(tmp_path: Path):
    with gzip.open(tmp_path / "a.json.gz", "wb") as packed:
        for _ in range(8):
            packed.write(b" " * MIB)
    refused(tmp_path / "a.json.gz", "more than 3 MiB once decompressed")


@pytest.mark.usefixtures("limits")
def test_a_zip_bomb_is_not_unpacked(tmp_path: Path):
    path = archive(tmp_path / "a.zip", {"a.json": b" " * (8 * MIB)})
    assert path.stat().st_size < MIB
    refused(path, "'a.json'", "more than 3 MiB once decompressed")


@pytest.mark.usefixtures("limits")
def test_many_small_members_are_too_much_together(tmp_path: Path):
    members = {f"samples/{i}.json": b'"' + b"x" * (MIB - 10) + b'"' for i in range(5)}
    file = SourceFile(archive(tmp_path / "a.eval", members))
    with pytest.raises(ImportFileError, match=r"'samples/3\.json' has more than"):
        list(file.member_documents(file.members()))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_file_cannot_name_another_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
):
    monkeypatch.setattr(files, "MAX_AGAIN", 3 * MIB)
    monkeypatch.setattr(files, "MAX_ROW_BYTES", MIB)
    file = SourceFile(jsonl(tmp_path / "a.jsonl", {"a": 1}))
    (tmp_path / f"b.json{suffix}").write_bytes(b"x" * (1 if suffix else MIB))
    for _ in range(1 + 3):
        assert file.part(f"b.json{suffix}") is not None
    with pytest.raises(ImportFileError, match="again and again, such as 'b.json.*more than 3 MiB"):
        file.part(f"b.json{suffix}")


def test_names_of_members_are_never_paths(tmp_path: Path):
    inside = tmp_path / "inside"
    inside.mkdir()
    names = ["../outside.json", "/tmp/outside.json", "a/../../outside.json"]
    path = archive(inside / "a.zip", {name: [{"a": 1}] for name in names})
    file = SourceFile(path)
    found = list(file.member_documents(file.members()))
    assert [content for _, content in found] == [[{"a": 1}]] * 3
    assert [entry.name for entry in tmp_path.rglob("*")] == ["inside", "a.zip"]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut", b"no archive at all"])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes):
    (tmp_path / "a.zip").write_bytes(content)
    refused(tmp_path / "a.zip", "not a zip archive")


def test_a_member_that_is_damaged_or_encrypted_is_refused(tmp_path: Path):
    path = archive(tmp_path / "a.zip", {"a.json": [{"a": "x" * 1000}]})
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[40:44] = b"\xff\xff\xff\xff"
    path.write_bytes(bytes(damaged))
    refused(path, "cannot be read")

    encrypted = bytearray(whole)
    encrypted[6] |= 1
    encrypted[whole.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(bytes(encrypted))
    refused(path, "not a zip archive that can be read", "encrypted")


def test_what_is_no_parquet_is_refused(tmp_path: Path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no, it is not PAR1")
    refused(tmp_path / "a.parquet", "not Parquet")


@pytest.mark.usefixtures("limits")
def test_a_parquet_bomb_is_not_unpacked(tmp_path: Path):
    table = pa.table({"a": pa.array(["x" * 20_000] * 500).dictionary_encode()})
    pq.write_table(table.cast(pa.schema([("a", pa.string())])), tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < MIB
    refused(tmp_path / "a.parquet", "more than 3,145,728 bytes once decompressed")


def test_json_that_takes_many_times_its_size_in_memory_is_not_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(files, "MAX_VALUES", 1000)
    parse = Mock(side_effect=json.loads)
    monkeypatch.setattr("regrade.exchange.importing.files.json.loads", parse)
    (tmp_path / "a.json").write_text("[" + "{}," * 999 + "{}]")
    refused(tmp_path / "a.json", "more than 1,000 values. Split the file")
    (tmp_path / "b.json").write_text("[{" + ",".join(f'"{n}": 0.5' for n in range(5000)) + "}]")
    refused(tmp_path / "b.json", "more than 1,000 values")
    assert not parse.called
    (tmp_path / "c.jsonl").write_text('{"a": 1}\n' * 1001)
    refused(tmp_path / "c.jsonl", "row 1000: more than 1,000 values")
    path = archive(tmp_path / "d.zip", {"a.json": b"[" + b"[]," * 1000 + b"[]]"})
    refused(path, "member 'a.json': more than 1,000 values")


def test_only_finite_numbers_and_truth_values_are_numbers():
    assert [finite(value) for value in (True, 0, 0.5)] == [1.0, 0.0, 0.5]
    for value in (None, "1", float("nan"), float("inf"), 10**400, [1]):
        assert finite(value) is None


def zstd_archive(path: Path, name: str, content: bytes) -> Path:
    """Write an archive whose one member is compressed with zstd, as newer logs of Inspect are."""
    packed = pa.compress(content, "zstd", asbytes=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        file.writestr(name, packed)
    whole = bytearray(path.read_bytes())
    central = whole.index(b"PK\x01\x02")
    for begin, method, crc, size in ((0, 8, 14, 22), (central, 10, 16, 24)):
        whole[begin + method : begin + method + 2] = (93).to_bytes(2, "little")
        whole[begin + crc : begin + crc + 4] = zlib.crc32(content).to_bytes(4, "little")
        whole[begin + size : begin + size + 4] = len(content).to_bytes(4, "little")
    path.write_bytes(bytes(whole))
    return path


def test_members_that_are_compressed_with_zstd_are_read(tmp_path: Path):
    path = zstd_archive(tmp_path / "a.eval", "a.json", b'{"a": [1, 2]}')
    assert list(SourceFile(path).member_documents(["a.json"])) == [("a.json", {"a": [1, 2]})]


@pytest.mark.usefixtures("limits")
def test_a_small_member_that_zstd_makes_large_is_refused(tmp_path: Path):
    path = zstd_archive(tmp_path / "a.eval", "a.json", b" " * 64 * MIB)
    assert path.stat().st_size < MIB
    with pytest.raises(ImportFileError, match=r"'a\.json' has more than"):
        list(SourceFile(path).member_documents(["a.json"]))


def test_a_damaged_member_of_zstd_is_refused(tmp_path: Path):
    path = zstd_archive(tmp_path / "a.eval", "a.json", b'{"a": "some longer text", "b": 1}')
    whole = bytearray(path.read_bytes())
    begin = whole.index(b"a.json") + len("a.json")
    whole[begin + 12] ^= 255
    path.write_bytes(bytes(whole))
    with pytest.raises(ImportFileError, match=r"member 'a\.json'"):
        list(SourceFile(path).member_documents(["a.json"]))
