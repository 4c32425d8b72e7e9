"""Answer repositories in a folder: edited, copied and damaged files, full disks, killed processes."""

import errno
import hashlib
import itertools
import json
import multiprocessing
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from regrade.answers import local_history
from regrade.answers.base import StoredFile
from regrade.answers.content import describe
from regrade.answers.local import LocalRepository
from regrade.answers.local_files import Files
from regrade.answers.local_history import FileChange, new_commit
from regrade.settings.errors import DamagedAnswersError, HeadMovedError, HubError, RepositoryError
from regrade.settings.files import file_sha256
from tests.answers.committing import commit_in_turn
from tests.answers.kills import killed_at

FOLDER = "answers/b/m/0123456789abcdef"
MANIFEST = f"{FOLDER}/manifest.json"
CONTENT = b"PAR1" * 50
SHARD = f"{FOLDER}/part-00000-{hashlib.sha256(CONTENT).hexdigest()[:8]}.parquet"
NOBODY = 65534


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "answers"


@pytest.fixture
def repository(folder: Path) -> LocalRepository:
    return LocalRepository(folder)


@pytest.fixture
def first(repository: LocalRepository) -> str:
    additions = {MANIFEST: b"1", SHARD: CONTENT, "README.md": b"card"}
    return repository.commit(additions, "first", parent=None)


def commit_file(folder: Path, number: int) -> Path:
    return folder / ".regrade" / "commits" / "00000" / f"{number:08d}.json"


@pytest.mark.parametrize("name", ["thesis.tex", "src/x.py", "answers/notes.txt", ".bashrc"])
def test_a_folder_of_something_else_is_refused_and_left_alone(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text("mine")
    before = sorted(folder.rglob("*"))

    with pytest.raises(RepositoryError, match="has other files"):
        LocalRepository(folder).head()
    with pytest.raises(RepositoryError, match="has other files"):
        LocalRepository(folder).commit({MANIFEST: b"1"}, "first", parent=None)

    assert sorted(folder.rglob("*")) == before


def test_a_folder_in_which_another_process_begins_is_not_one_of_something_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir()
    names = Path.iterdir

    def later(path: Path) -> Iterator[Path]:
        (folder / ".regrade").mkdir(exist_ok=True)
        return names(path)

    monkeypatch.setattr(Path, "iterdir", later)
    assert LocalRepository(folder).head() is None


def test_a_file_is_not_a_folder(folder: Path) -> None:
    folder.write_text("x")

    with pytest.raises(RepositoryError, match="it is a file"):
        LocalRepository(folder).head()


@pytest.mark.parametrize("rest", [b"", b'{"revision":"0', b"\0" * 10_000])
def test_a_newest_commit_that_was_cut_off_did_not_happen(
    folder: Path, first: str, rest: bytes
) -> None:
    second = LocalRepository(folder).commit({MANIFEST: b"2"}, "second", parent=first)
    cut = commit_file(folder, 2)
    cut.write_bytes(rest)  # as where there are no hard links: the name comes before the content

    repository = LocalRepository(folder)
    assert repository.head() == first
    assert repository.fetch(MANIFEST, first).read_bytes() == b"1"
    with pytest.raises(HeadMovedError):  # it may be being written
        repository.commit({MANIFEST: b"3"}, "third", parent=first)
    os.utime(cut, (0, 0))
    third = repository.commit({MANIFEST: b"3"}, "third", parent=first)

    assert third != second
    assert LocalRepository(folder).head() == third
    assert LocalRepository(folder).fetch(MANIFEST, third).read_bytes() == b"3"


def test_files_of_a_first_commit_that_crashed_are_not_taken_for_a_copy(
    folder: Path, first: str
) -> None:
    commit_file(folder, 1).unlink()  # as after a crash just before it was made

    repository = LocalRepository(folder)
    assert repository.head() is None
    again = repository.commit({MANIFEST: b"1", SHARD: CONTENT}, "again", parent=None)

    assert repository.files(again).keys() == {MANIFEST, SHARD, "README.md"}


@pytest.mark.parametrize("change", [(b'"size":1', b'"size":7'), (b"first", b"other"), (b"{", b"[")])
def test_a_commit_that_was_altered_is_damage(
    folder: Path, first: str, change: tuple[bytes, bytes]
) -> None:
    LocalRepository(folder).commit({MANIFEST: b"2"}, "second", parent=first)
    altered = commit_file(folder, 1)
    altered.write_bytes(altered.read_bytes().replace(*change, 1))

    with pytest.raises(DamagedAnswersError, match=r"00000001\.json.*not a commit"):
        LocalRepository(folder).head()
    altered.unlink()
    with pytest.raises(DamagedAnswersError, match=r"00000001\.json.*is missing"):
        LocalRepository(folder).head()


def test_a_newest_commit_that_was_altered_is_damage_and_not_one_that_was_cut_off(
    folder: Path, first: str
) -> None:
    LocalRepository(folder).commit({MANIFEST: b"2"}, "second", parent=first)
    altered = commit_file(folder, 2)
    altered.write_bytes(altered.read_bytes().replace(b"second", b"zecond"))
    os.utime(altered, (0, 0))

    with pytest.raises(DamagedAnswersError, match=r"00000002\.json.*not a commit"):
        LocalRepository(folder).commit({MANIFEST: b"3"}, "third", parent=first)


def test_a_commit_that_is_missing_before_one_that_was_cut_off_is_damage(
    folder: Path, first: str
) -> None:
    second = LocalRepository(folder).commit({MANIFEST: b"2"}, "second", parent=first)
    LocalRepository(folder).commit({MANIFEST: b"3"}, "third", parent=second)
    commit_file(folder, 3).write_bytes(b"")
    commit_file(folder, 2).unlink()

    with pytest.raises(DamagedAnswersError, match=r"00000002\.json.*is missing"):
        LocalRepository(folder).head()


def test_a_commit_that_leads_out_of_the_folder_is_damage(folder: Path, first: str) -> None:
    evil = new_commit(first, None, "x", {"../../etc/passwd": FileChange(sha256="0" * 64, size=1)})
    commit_file(folder, 2).write_bytes(evil.stored)
    commit_file(folder, 3).write_bytes(new_commit(evil.revision, None, "y", {}).stored)

    with pytest.raises(DamagedAnswersError, match=r"00000002\.json"):
        LocalRepository(folder).head()


def test_a_card_edited_by_hand_is_the_card_at_the_head_and_one_that_was_removed_is_as_committed(
    folder: Path, first: str
) -> None:
    (folder / "README.md").unlink()
    assert LocalRepository(folder).fetch("README.md", first).read_bytes() == b"card"
    (folder / "README.md").write_bytes(b"my own words")
    repository = LocalRepository(folder)

    assert repository.head() == first
    assert repository.fetch("README.md", first).read_bytes() == b"my own words"
    assert repository.files(first)["README.md"].size == len(b"my own words")
    second = repository.commit({"README.md": b"my own words, and ours"}, "card", parent=first)

    assert repository.fetch("README.md", second).read_bytes() == b"my own words, and ours"
    assert repository.fetch("README.md", first).read_bytes() == b"card"


@pytest.mark.parametrize("content", [b"PAR2" * 50, b"short", None])
def test_a_shard_changed_by_hand_is_damage_until_it_is_committed_again(
    folder: Path, first: str, content: bytes | None
) -> None:
    repository = LocalRepository(folder)
    (folder / SHARD).unlink()
    if content is not None:
        (folder / SHARD).write_bytes(content)

    with pytest.raises(DamagedAnswersError, match=Path(SHARD).name):
        repository.fetch(SHARD, first)
    assert repository.commit({SHARD: CONTENT}, "again", parent=first) == first

    assert repository.fetch(SHARD, first).read_bytes() == CONTENT
    assert (folder / SHARD).read_bytes() == CONTENT


def test_a_damaged_kept_content_is_not_put_at_its_path_and_is_replaced_by_a_commit(
    folder: Path, first: str
) -> None:
    repository = LocalRepository(folder)
    kept = folder / ".regrade" / "objects" / hashlib.sha256(b"1").hexdigest()
    kept.write_bytes(b"2")
    (folder / MANIFEST).unlink()

    repository.tidy()
    assert not (folder / MANIFEST).exists()
    assert repository.commit({MANIFEST: b"1"}, "again", parent=first) == first
    assert (kept.read_bytes(), (folder / MANIFEST).read_bytes()) == (b"1", b"1")


@pytest.mark.parametrize("content", [b"2", b"short", None])
def test_a_manifest_changed_by_hand_reads_as_committed_and_is_put_back(
    folder: Path, first: str, content: bytes | None
) -> None:
    repository = LocalRepository(folder)
    (folder / MANIFEST).unlink()
    if content is not None:
        (folder / MANIFEST).write_bytes(content)

    assert repository.fetch(MANIFEST, first).read_bytes() == b"1"
    ((path, problem),) = repository.differences()
    assert path == MANIFEST
    assert "regrade verify --sweep" in problem
    repository.tidy()

    assert (folder / MANIFEST).read_bytes() == b"1"
    assert not list(repository.differences())


def test_links_in_a_stranger_s_copy_lead_no_file_out_of_the_folder(
    folder: Path, tmp_path: Path
) -> None:
    head = LocalRepository(folder).commit({"aliases/authorized_keys": b"theirs"}, "x", parent=None)
    home = tmp_path / "home"
    home.mkdir()
    (home / ".profile").write_text("mine")
    os.utime(home / ".profile", (0, 0))
    shutil.rmtree(folder / "aliases")
    (folder / "aliases").symlink_to(home)
    (folder / ".regrade/commits/00009").symlink_to(home)

    with pytest.raises(DamagedAnswersError, match="aliases' is damaged: it is a link"):
        LocalRepository(folder).commit({MANIFEST: b"1"}, "ours", parent=head)

    assert [path.name for path in home.iterdir()] == [".profile"]
    (folder / ".regrade/objects").rename(tmp_path / "objects")
    (folder / ".regrade/objects").symlink_to(tmp_path / "objects")
    with pytest.raises(DamagedAnswersError, match="objects' is damaged: it is a link"):
        LocalRepository(folder).tidy()


def test_a_copy_with_a_link_to_nothing_lacks_that_file_and_no_other(
    folder: Path, first: str, tmp_path: Path
) -> None:
    shutil.copytree(folder, tmp_path / "copy", ignore=lambda *_: {".regrade"})
    (tmp_path / "copy" / SHARD).unlink()
    (tmp_path / "copy" / SHARD).symlink_to(tmp_path / "blob")

    copy = LocalRepository(tmp_path / "copy")

    assert copy.files(str(copy.head())).keys() == {MANIFEST, "README.md"}


def test_a_text_whose_differences_repeat_it_is_damaged_and_not_put_together(folder: Path) -> None:
    repository = LocalRepository(folder)
    base, path = b"x" * 2**16, "measurements/long.json"
    head = repository.commit({path: base}, "base", parent=None)
    bomb = hashlib.sha256(b"bomb").hexdigest()
    edits = [[len(base), 0, ""]] * 1000
    delta = {"base": hashlib.sha256(base).hexdigest(), "chain": 1, "weight": 0, "edits": edits}
    (folder / f".regrade/objects/{bomb}.delta").write_text(json.dumps(delta))

    with pytest.raises(DamagedAnswersError, match="does not tell the differences"):
        Files(folder, folder / ".regrade").find(StoredFile(path, 1, bomb))
    assert [path for path, _ in LocalRepository(folder).differences()] == [
        f".regrade/objects/{bomb}.delta"
    ]
    assert repository.head() == head


@pytest.mark.parametrize("at", ["00000/00000002.json", "zz/00000002.json", "zz"])
def test_what_is_no_commit_in_a_copied_history_is_damage_or_passed_over(
    folder: Path, first: str, at: str
) -> None:
    huge = {"sha256": "0" * 64, "size": 10**30}
    commit = {"revision": "0" * 40, "parent": first, "date": None, "message": ""}
    path = folder / ".regrade/commits" / at
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({**commit, "changes": {"answers/a": huge}}) + "\n")

    if at.startswith("00000"):
        with pytest.raises(DamagedAnswersError, match=r"00000002\.json.*not a commit"):
            LocalRepository(folder).head()
    else:
        assert LocalRepository(folder).head() == first


def test_a_copy_without_a_log_reads_the_same_until_it_is_written_to(
    folder: Path, tmp_path: Path, first: str
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(".regrade"))
    (copy / ".gitattributes").write_text("x")

    head = LocalRepository(copy).head()
    assert head == LocalRepository(copy).head()
    assert head is not None
    assert not (copy / ".regrade").exists()
    assert LocalRepository(copy).files(head).keys() == {MANIFEST, SHARD, "README.md"}
    second = LocalRepository(copy).commit({MANIFEST: b"2"}, "second", parent=head)

    assert LocalRepository(copy).head() == second
    assert LocalRepository(copy).fetch(MANIFEST, head).read_bytes() == b"1"
    assert LocalRepository(copy).fetch(SHARD, second).read_bytes() == CONTENT


def test_a_copy_that_changed_since_it_was_read_is_a_moved_head(
    folder: Path, tmp_path: Path, first: str
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(".regrade"))
    repository = LocalRepository(copy)
    head = repository.head()
    (copy / MANIFEST).write_bytes(b"other")

    with pytest.raises(HeadMovedError):
        repository.commit({SHARD: b"PAR2"}, "second", parent=head)


@pytest.fixture
def limited_files() -> Iterator[None]:
    """Limit files of this process to 1 MB, so that the system raises an error during a write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_everything_as_it_was(
    folder: Path, first: str, limited_files: None
) -> None:
    def files() -> dict[Path, bytes]:
        found = (p for p in folder.rglob("*") if p.is_file() and ".regrade" not in str(p))
        return {path: path.read_bytes() for path in found}

    before = files()
    large = f"{FOLDER}/part-00001-01234567.parquet"

    with pytest.raises(HubError, match="Nothing was committed. Free some space") as caught:
        LocalRepository(folder).commit(
            {MANIFEST: b"2", "README.md": b"x", large: bytes(2_000_000)}, "2", parent=first
        )

    assert not caught.value.retryable
    assert LocalRepository(folder).head() == first
    assert files() == before
    assert list((folder / ".regrade" / "tmp").iterdir()) == []


def test_a_commit_that_cannot_be_written_leaves_the_files_alone(
    folder: Path, first: str, limited_files: None
) -> None:
    message = "m" * 1_100_000
    new = f"{FOLDER}/part-00001-01234567.parquet"

    with pytest.raises(HubError, match="Nothing was committed"):
        LocalRepository(folder).commit({MANIFEST: b"2", new: b"PAR1"}, message, parent=first)

    assert not commit_file(folder, 2).exists()
    assert (folder / MANIFEST).read_bytes() == b"1"
    assert not (folder / new).exists()
    assert LocalRepository(folder).head() == first
    second = LocalRepository(folder).commit({MANIFEST: b"2", new: b"PAR1"}, "short", parent=first)
    assert LocalRepository(folder).fetch(MANIFEST, second).read_bytes() == b"2"


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A folder that this process can read but not write, even as root."""
    place = Path(tempfile.mkdtemp())
    folder = place / "answers"
    LocalRepository(folder).commit({MANIFEST: b"1", SHARD: b"PAR1"}, "first", parent=None)
    for path in [place, *place.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    was = os.geteuid()
    if was == 0:
        os.seteuid(NOBODY)
    yield folder
    os.seteuid(was)
    for path in [place, *place.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    shutil.rmtree(place)


def test_a_read_only_folder_is_read_and_refused_for_writing(read_only: Path) -> None:
    repository = LocalRepository(read_only)
    head = repository.head()
    assert head is not None
    assert repository.fetch(SHARD, head).read_bytes() == b"PAR1"

    with pytest.raises(RepositoryError, match="is not writable"):
        repository.check_writable()
    with pytest.raises(RepositoryError, match="is not writable"):
        repository.commit({MANIFEST: b"2"}, "second", parent=head)
    with pytest.raises(RepositoryError, match="is not writable"):
        LocalRepository(read_only.parent / "new").check_writable()


@pytest.mark.parametrize("links", [True, False], ids=["with hard links", "without hard links"])
def test_processes_that_commit_at_once_lose_nothing(folder: Path, first: str, links: bool) -> None:
    # What other tests leave in this process, such as a Prefect flow's threads, is not copied into a new one.
    forking = multiprocessing.get_context("forkserver")
    forking.set_forkserver_preload([commit_in_turn.__module__])
    together = forking.Barrier(4)
    processes = [
        forking.Process(target=commit_in_turn, args=(folder, MANIFEST, number, together, links))
        for number in range(1, 5)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)

    repository = LocalRepository(folder)
    head = str(repository.head())
    assert [process.exitcode for process in processes] == [0, 0, 0, 0]
    assert {f"scores/{n}.json" for n in range(1, 5)} <= repository.files(head).keys()
    assert commit_file(folder, 5).exists()
    assert not commit_file(folder, 6).exists()
    assert not list(repository.differences())


def test_files_noted_now_and_then_are_those_of_the_commits_or_are_named(
    folder: Path, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_history, "COMMITS_PER_CHECKPOINT", 3)
    head = first
    for number in range(10):
        additions = {MANIFEST: b"%d" % number, f"scores/{number}.json": b"{}"}
        head = LocalRepository(folder).commit(additions, "next", parent=head)
    noted = sorted((folder / ".regrade" / "checkpoints").iterdir())
    assert [path.name for path in noted] == ["00000006.json", "00000009.json"]
    files = LocalRepository(folder).files(head)
    list(LocalRepository(folder).differences())

    whole = noted[-1].read_bytes()
    document = json.loads(whole)
    document["files"]["scores/0.json"]["size"] += 1
    changes = {path: FileChange(**change) for path, change in document["files"].items()}
    document["sha256"] = local_history._digest(changes)
    noted[-1].write_text(json.dumps(document))
    with pytest.raises(DamagedAnswersError, match="other files than the commits. Delete it"):
        list(LocalRepository(folder).differences())

    for damaged in (whole[:-20], whole.replace(b'"size":2', b'"size":3', 1), b""):
        noted[-1].write_bytes(damaged)
        assert LocalRepository(folder).files(head) == files
    for path in noted:
        path.unlink()
    assert LocalRepository(folder).files(head) == files


def shard_of(content: bytes, number: int) -> str:
    return f"{FOLDER}/part-{number:05d}-{hashlib.sha256(content).hexdigest()[:8]}.parquet"


def manifest_of(contents: Mapping[int, bytes]) -> bytes:
    """A manifest with all that a folder reads of it."""
    shards = []
    for number, content in contents.items():
        name, sha256 = Path(shard_of(content, number)).name, hashlib.sha256(content).hexdigest()
        shards.append({"name": name, "bytes": len(content), "sha256": sha256})
    return json.dumps({"rows": len(shards), "shards": shards}, indent=1).encode()


# so many shards that a folder keeps the later manifest as a difference
BEFORE = {number: b"PAR1" * 20 + b"%d" % number for number in range(58)}
AFTER = {number: b"PAR1" * 20 + b"%d" % number for number in range(1, 60)}
TABLE, CARD = "scores/b/m/0123456789abcdef/number-1-00000000.parquet", "README.md"


def commit_of(contents: Mapping[int, bytes], text: bytes) -> dict[str, Path | bytes]:
    shards: dict[str, Path | bytes] = {shard_of(c, n): c for n, c in contents.items()}
    return shards | {MANIFEST: manifest_of(contents), CARD: text, TABLE: text}


def commit_after(folder: Path, parent: str) -> str:
    new = {n: c for n, c in AFTER.items() if n not in BEFORE}
    additions = commit_of(new, b"after") | {MANIFEST: manifest_of(AFTER)}
    removed = [shard_of(BEFORE[0], 0)]
    return LocalRepository(folder).commit(additions, "second", parent=parent, removed=removed)


def listed_shards(repository: LocalRepository) -> set[str]:
    """Return the paths of the shards that the manifest at the head lists, after reading each."""
    head = str(repository.head())
    listed = json.loads(repository.fetch(MANIFEST, head).read_bytes())["shards"]
    for shard in listed:
        content = repository.fetch(f"{FOLDER}/{shard['name']}", head).read_bytes()
        assert hashlib.sha256(content).hexdigest() == shard["sha256"]
    return {f"{FOLDER}/{shard['name']}" for shard in listed}


def test_a_kill_at_any_step_leaves_a_commit_or_none_and_plain_copies_are_whole(
    tmp_path: Path,
) -> None:
    base = tmp_path / "base"
    parent = LocalRepository(base).commit(commit_of(BEFORE, b"before"), "first", parent=None)
    happened = []
    for step in itertools.count(1):
        folder, copy = tmp_path / f"{step}", tmp_path / f"copy-{step}"
        shutil.copytree(base, folder)
        killed = killed_at(step, partial(commit_after, folder, parent))
        repository = LocalRepository(folder)
        head = repository.head()
        happened.append(head != parent)
        expected = {shard_of(c, n) for n, c in (AFTER if head != parent else BEFORE).items()}
        assert listed_shards(repository) == expected
        files = repository.files(str(head), FOLDER)
        assert files.keys() - {MANIFEST} == expected

        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(".regrade"))
        assert listed_shards(LocalRepository(copy)) in (
            {shard_of(c, n) for n, c in contents.items()} for contents in (BEFORE, AFTER)
        )

        if not killed:
            break
        if step % 2:
            repository.tidy()
        else:
            repository.commit({f"{FOLDER}/other.json": b"3"}, "third", parent=head)
            expected.add(f"{FOLDER}/other.json")
        there = {path.relative_to(folder).as_posix() for path in (folder / FOLDER).iterdir()}
        assert there - {MANIFEST} == expected
        assert not list(repository.differences())
        shutil.rmtree(folder)
        shutil.rmtree(copy)
    assert not happened[0]
    assert happened == sorted(happened)  # there is one step by which it happens
    assert 5 < happened.count(True) < len(happened) - 5
    assert not list(repository.differences())


def test_a_shard_that_two_processes_placed_at_once_is_gone_when_it_is_removed(folder: Path) -> None:
    path = shard_of(b"rows", 0)
    head = LocalRepository(folder).commit({path: b"rows"}, "first", parent=None)
    # One of them keeps what the other has just placed, and then moves one name of the file over the other.
    kept = folder / ".regrade" / "objects" / hashlib.sha256(b"rows").hexdigest()
    os.link(folder / path, kept)

    LocalRepository(folder).commit({CARD: b"second"}, "second", parent=head, removed=[path])

    assert not (folder / path).exists()
    assert LocalRepository(folder).fetch(path, head).read_bytes() == b"rows"


def test_shards_that_another_process_is_removing_are_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = {shard_of(content, number): content for number, content in enumerate((b"one", b"two"))}
    head = LocalRepository(folder).commit(dict(shards), "first", parent=None)

    def hash_of(path: Path) -> str:
        sha256 = file_sha256(path)
        if path.parent.name != "objects":
            path.replace(folder / ".regrade" / "objects" / sha256)  # the other process is faster
        return sha256

    with monkeypatch.context() as other:
        other.setattr("regrade.answers.local_files.file_sha256", hash_of)
        LocalRepository(folder).commit({CARD: b"second"}, "second", parent=head, removed=[*shards])

    assert [path for path in shards if (folder / path).exists()] == []
    for path, content in shards.items():
        assert LocalRepository(folder).fetch(path, head).read_bytes() == content


def test_a_text_stays_readable_though_another_process_replaced_the_one_that_it_is_compared_with(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = b"".join(b"line %d\n" % n for n in range(2_000))
    head: str | None = None
    for text in (whole, whole + b"more"):  # the second is kept as its difference
        head = LocalRepository(folder).commit({MANIFEST: text}, "text", parent=head)

    files, repository = Files(folder, folder / ".regrade"), LocalRepository(folder)

    def find(file: StoredFile) -> Path | None:
        found = Files.find(files, file)
        assert found == folder / MANIFEST
        found.write_bytes(b"of the other process, which is faster" + whole)
        return found

    monkeypatch.setattr(files, "find", find)
    [content] = describe(repository.uri, {MANIFEST: whole + b"most"})
    files.keep(content, repository.files(head, FOLDER)[MANIFEST])

    kept = Files(folder, folder / ".regrade").find(content)
    assert kept is not None
    assert kept.read_bytes() == whole + b"most"


def test_what_another_process_puts_in_place_of_a_file_is_kept_under_its_own_name(
    folder: Path, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hash_of(path: Path) -> str:
        sha256 = file_sha256(path)
        if path == folder / MANIFEST and path.read_bytes() == b"edited by hand":
            path.write_bytes(b"of the other process")
        return sha256

    (folder / MANIFEST).write_bytes(b"edited by hand")
    monkeypatch.setattr("regrade.answers.local_files.file_sha256", hash_of)
    Files(folder, folder / ".regrade").preserve(MANIFEST)

    assert [*Files(folder, folder / ".regrade").damaged()] == []


def test_a_damaged_difference_is_named_beside_other_damage_and_replaced_by_the_same_text(
    folder: Path,
) -> None:
    whole = b"".join(b"line %d\n" % n for n in range(2_000))
    head: str | None = None
    for text in (whole, whole + b"more", b"last"):
        head = LocalRepository(folder).commit({MANIFEST: text}, "text", parent=head)
    objects = folder / ".regrade/objects"
    (delta,) = objects.glob("*.delta")
    delta.write_bytes(delta.read_bytes()[:-9])
    damaged = objects / hashlib.sha256(b"last").hexdigest()
    damaged.write_bytes(b"else")

    files = Files(folder, folder / ".regrade")
    assert {*files.damaged()} == {delta, damaged}
    head = LocalRepository(folder).commit({MANIFEST: whole + b"more"}, "again", parent=head)
    assert LocalRepository(folder).fetch(MANIFEST, head).read_bytes() == whole + b"more"
    assert {*files.damaged()} == set()


def test_temporary_files_of_a_killed_process_are_removed_after_a_day_of_the_file_system(
    folder: Path, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = folder / ".regrade" / "tmp"
    for name in ("old", "new"):
        (temporary / name).write_bytes(b"half a shard")
    os.utime(temporary / "old", (0, 0))
    jumped = time.time() + 10**8
    monkeypatch.setattr(time, "time", lambda: jumped)

    LocalRepository(folder).commit({MANIFEST: b"2"}, "2", parent=first)

    assert [path.name for path in temporary.iterdir()] == ["new"]


def test_an_addition_that_is_not_there_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(HubError, match=os.strerror(errno.ENOENT)):
        LocalRepository(folder).commit({SHARD: tmp_path / "gone"}, "first", parent=None)
