"""Common behaviour of answer repositories, in a folder and on the Hub."""

import hashlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from runpy import run_path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import load_dataset

from regrade.answers.base import Repository
from regrade.answers.local import LocalRepository
from regrade.answers.overview import render_card
from regrade.records import Completion, Sample
from regrade.records.columns import ADDED_COLUMNS, GENERATION_SCHEMA, generation_row
from regrade.settings.errors import HeadMovedError, RepositoryError
from tests.answers.conftest import Opener
from tests.command_line import ROOT
from tests.hub_server.fixtures import Hub
from tests.hub_server.here import use_hub

FOLDER = "answers/gsm8k/org--model/0123456789abcdef"
SHARD = f"{FOLDER}/part-00000-01234567.parquet"
MANIFEST = f"{FOLDER}/manifest.json"


@pytest.fixture
def repository(opened: Opener) -> Repository:
    return opened()


def read(repository: Repository, path: str, revision: str) -> bytes:
    return repository.fetch(path, revision).read_bytes()


def test_a_commit_holds_text_and_binary_files_from_memory_and_disk(
    repository: Repository, tmp_path: Path
) -> None:
    binary = bytes(range(256)) * 300
    source = tmp_path / "source"
    source.write_bytes(binary)
    card = "Größe\r\n".encode()
    contents = {SHARD: binary, "README.md": card, MANIFEST: b"", "scores/x.bin": b"\0"}

    revision = repository.commit(contents | {SHARD: source}, "all kinds", parent=None)

    assert {path: read(repository, path, revision) for path in contents} == contents
    assert source.read_bytes() == binary


def test_files_say_size_and_for_parquet_sha256(repository: Repository) -> None:
    revision = repository.commit({SHARD: b"PAR1"}, "first", parent=None)

    stored = repository.files(revision)[SHARD]

    assert (stored.path, stored.size) == (SHARD, 4)
    assert stored.sha256 == hashlib.sha256(b"PAR1").hexdigest()


def test_files_are_found_by_folder_and_not_by_the_beginning_of_a_name(
    repository: Repository,
) -> None:
    paths = ("a/b/x.json", "a/b-2/x.json", "a/b.json", "a/b0/x.json", "a/b/c/x.json")
    revision = repository.commit(dict.fromkeys(paths, b"1"), "all", parent=None)

    for folder in ("a/b", "a/b/"):
        assert list(repository.files(revision, folder)) == ["a/b/c/x.json", "a/b/x.json"]
    assert repository.files(revision, "a/c") == {}
    assert repository.files(revision).keys() >= {*paths}


def test_old_revisions_stay_readable_after_files_were_replaced(opened: Opener) -> None:
    first = opened().commit({MANIFEST: b"1", SHARD: b"PAR1", "README.md": b"a"}, "1", parent=None)
    second = opened().commit({MANIFEST: b"22", "README.md": b"b"}, "2", parent=first)
    third = opened().commit({MANIFEST: b"333"}, "3", parent=second)

    contents = [read(opened(), MANIFEST, revision) for revision in (first, second, third)]
    cards = [read(opened(), "README.md", revision) for revision in (first, second, third)]

    assert contents == [b"1", b"22", b"333"]
    assert cards == [b"a", b"b", b"b"]
    assert [opened().files(r)[MANIFEST].size for r in (first, second, third)] == [1, 2, 3]
    assert read(opened(), SHARD, third) == b"PAR1"


def test_a_head_that_moved_is_an_error_and_nothing_is_written(opened: Opener) -> None:
    first = opened().commit({MANIFEST: b"1"}, "1", parent=None)
    second = opened().commit({MANIFEST: b"2"}, "2", parent=first)

    for parent in (first, None):
        with pytest.raises(HeadMovedError) as caught:
            opened().commit({MANIFEST: b"3", SHARD: b"PAR1"}, "3", parent=parent)
        assert caught.value.retryable

    assert opened().head() == second
    assert SHARD not in opened().files(second)


def test_committing_what_is_there_makes_no_new_commit(opened: Opener) -> None:
    additions = {MANIFEST: b"1", SHARD: b"PAR1"}
    first = opened().commit(additions, "1", parent=None)
    second = opened().commit({"scores/a.json": b"2"}, "2", parent=first)

    assert opened().commit(additions, "again", parent=second) == second
    assert opened().commit(additions, "again, from before", parent=first) == second
    assert opened().commit(additions, "again, from nothing", parent=None) == second


def test_revisions_are_resolved_from_names_and_first_digits(opened: Opener) -> None:
    first = opened().commit({MANIFEST: b"1"}, "1", parent=None)
    second = opened().commit({MANIFEST: b"2"}, "2", parent=first)

    assert opened().resolve(first) == first
    assert opened().resolve(first[:10]) == first
    assert opened().resolve("main") == second
    for unknown in ("0" * 40, "0123456789", "release", "v1.0"):
        with pytest.raises(RepositoryError, match=unknown):
            opened().resolve(unknown)


def test_unknown_files_and_revisions_are_named(repository: Repository) -> None:
    revision = repository.commit({MANIFEST: b"1"}, "1", parent=None)

    with pytest.raises(RepositoryError, match=r"answers/nothing\.json"):
        repository.fetch("answers/nothing.json", revision)
    with pytest.raises(RepositoryError):
        repository.files("0" * 40)
    with pytest.raises(RepositoryError, match="resolve it first"):
        repository.fetch(MANIFEST, "main")


@pytest.mark.parametrize(
    "path",
    [
        *(
            "../escape",
            "/etc/passwd",
            "a/../../b",
            "a//b",
            ".regrade/log.jsonl",
            ".git/x",
            "",
            "a\\b",
        ),
        f"answers/{'é' * 128}/part.parquet",
    ],
)
def test_a_path_that_leaves_the_repository_or_fits_on_no_disk_is_refused(
    repository: Repository, path: str
) -> None:
    with pytest.raises(RepositoryError, match="is not a valid path"):
        repository.commit({path: b"x"}, "bad", parent=None)

    assert repository.head() is None


def test_a_commit_of_nothing_is_refused(repository: Repository) -> None:
    with pytest.raises(RepositoryError, match="at least one file"):
        repository.commit({}, "nothing", parent=None)


def test_of_two_writers_both_succeed_or_one_is_told_that_the_head_moved(opened: Opener) -> None:
    head = opened().commit({MANIFEST: b"0"}, "0", parent=None)
    barrier = threading.Barrier(4)
    moved: list[HeadMovedError] = []

    def write(number: int) -> None:
        repository, parent = opened(), head
        barrier.wait()
        for _ in range(10):
            try:
                repository.commit({f"scores/{number}.json": b"%d" % number}, "w", parent=parent)
            except HeadMovedError as error:
                moved.append(error)
                parent = str(repository.head())
            else:
                return

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))

    last = str(opened().head())
    assert {f"scores/{n}.json" for n in range(4)} <= opened().files(last).keys()
    assert len(moved) >= 3
    assert all(error.retryable for error in moved)


def test_the_source_of_an_addition_is_neither_moved_nor_shared(
    opened: Opener, tmp_path: Path
) -> None:
    head = opened().commit({MANIFEST: b"0"}, "0", parent=None)
    source = tmp_path / "source"
    source.write_bytes(b"PAR1" * 10)

    revision = opened().commit({SHARD: source}, "1", parent=head)
    source.write_bytes(b"other")

    assert read(opened(), SHARD, revision) == b"PAR1" * 10


def shard(targets: list[str], schema: pa.Schema = GENERATION_SCHEMA) -> bytes:
    rows = [
        generation_row(
            Sample(f"{n:016x}", n, target, {}, choices=("x", "y")),
            0,
            Completion(n, "Q", text=target, label_logprobs=None if n else (-0.5, -1.0)),
        )
        for n, target in enumerate(targets)
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema), sink, compression="zstd")
    return sink.getvalue().to_pybytes()


def listing(*parts: str) -> bytes:
    """A manifest that lists parts."""
    return json.dumps({"shards": [{"name": f"part-{part}.parquet"} for part in parts]}).encode()


VERSION_1 = pa.schema([field for field in GENERATION_SCHEMA if field.name not in ADDED_COLUMNS])


def test_the_documented_code_reads_the_rows_of_now_and_tells_their_model_and_answer_set(
    opened: Opener, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    card = render_card(None, {FOLDER.removeprefix("answers/"): "| gsm8k |"}).encode()
    additions = {
        "README.md": card,
        f"{FOLDER}/part-00000-00000000.parquet": shard(["1", "2"]),
        f"{FOLDER}/part-00001-00000001.parquet": shard(["3"]),
        f"{FOLDER}/manifest.json": listing("00000-00000000", "00001-00000001"),
        "answers/gsm8k_chat/org--model/0000000000000003/part-00000-00000003.parquet": shard(["5"]),
        "scores/gsm8k/org--model/0000000000000000/number-1-00000000.parquet": shard(["6"]),
    }
    repository = opened()
    first = repository.commit(additions, "answers", parent=None)
    repository.commit({"README.md": card + b"\n"}, "card", parent=first)
    hub: Hub | None = None
    if repository.uri.startswith("hf://"):
        hub = request.getfixturevalue("hub")
    else:  # one that no manifest lists, as after a kill
        Path(repository.uri, FOLDER, "part-00001-00000009.parquet").write_bytes(shard(["3"]))
    mine = [[target, "org--model", "0123456789abcdef"] for target in "123"]

    further = "answers/gsm8k/other/0000000000000001"
    grown = {  # with a part that an earlier version wrote
        f"{further}/part-00000-00000002.parquet": shard(["4"], VERSION_1),
        f"{further}/part-00001-00000004.parquet": shard(["7"]),
        f"{further}/manifest.json": listing("00000-00000002", "00001-00000004"),
    }
    repository.commit(grown, "more", parent=repository.head())
    columns, told = loaded(repository.uri, hub, tmp_path)
    assert columns == [*GENERATION_SCHEMA.names, "model", "answer_set_id"]
    assert told == [*mine, *([target, "other", "0000000000000001"] for target in "47")]

    if hub is None:  # another folder with the same name
        other = LocalRepository(tmp_path / "other" / "answers")
        other.commit(grown, "others", parent=None)
        _, told = loaded(other.uri, hub, tmp_path)
        assert [target for target, *_ in told] == ["4", "7"]


def loaded(uri: str, hub: Hub | None, home: Path) -> tuple[list[str], list[list[str]]]:
    """Columns that the example's code gives, and targets with model and answer set."""
    with pytest.MonkeyPatch.context() as patch:
        if hub is not None:
            use_hub(patch, hub.endpoint, home=home / "home", token=hub.token)
        read_answers = run_path(str(ROOT / "examples" / "read_answers.py"))["read"]
        rows = read_answers(uri, "gsm8k")
        if hub is not None:
            plain = load_dataset(hub.repo_id, "gsm8k", split="train")
            assert sorted(plain["target"]) == sorted(rows["target"])
    told = zip(rows["target"], rows["model"], rows["answer_set_id"], strict=True)
    return rows.column_names, sorted(map(list, told))
