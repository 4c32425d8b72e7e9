import errno
import itertools
import logging
import math
import os
import pickle
import random
import shutil
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from regrade.answers.ownership import Ownership
from regrade.answers.parquet import seal_table
from regrade.answers.spool import (
    Spool,
    SpoolBusyError,
    SpoolError,
    interrupted,
    is_from_this_machine,
    spool_folder,
)
from regrade.records.columns import GENERATION_SCHEMA
from regrade.settings.errors import DamagedAnswersError
from regrade.settings.files import spool_root
from tests.builders import row


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spool" / "0123456789abcdef"


def test_rows_on_disk_are_counted_from_process_to_process(folder: Path):
    counts = []
    with Spool(folder) as spool:
        spool.append([row(1), row(2)])
        counts.append(spool.rows)
    with Spool(folder) as spool:  # from the journal
        spool.append([row(3)])
        counts.append(spool.rows)
        spool.seal()
        spool.append([row(4)])
        counts.append(spool.rows)
    with Spool(folder) as spool:  # from a sealed file and a journal
        counts.append(spool.rows)
        assert spool.size == sum(path.stat().st_size for path in folder.glob("*-*"))
        sealed = spool.seal()
        spool.release(file.path for file in sealed[:1])
        counts.append(spool.rows)
        spool.remove()
        counts.append(spool.rows)

    assert counts == [2, 3, 4, 4, 4 - sealed[0].rows, 0]
    assert [file.rows for file in sealed] == [3, 1]


def test_numbers_that_json_does_not_have_come_back_as_they_were(folder: Path):
    logprobs = [-math.inf, -0.1, math.nan, math.inf, None]
    with Spool(folder) as spool:
        spool.append([row(1, label_logprobs=logprobs, token_logprobs=logprobs[:2])])
        [sealed] = spool.seal()

    [found] = pq.read_table(sealed.path).to_pylist()
    assert repr(found["label_logprobs"]) == repr(logprobs)
    assert found["token_logprobs"] == pytest.approx(logprobs[:2])


def test_a_crash_between_sealing_and_removing_the_journal_doubles_no_row(folder: Path):
    with Spool(folder) as spool:
        spool.append([row(1)])
    journal = next(folder.glob("journal-*.jsonl"))
    content = journal.read_bytes()
    with Spool(folder) as spool:
        spool.seal()
    journal.write_bytes(content)

    with Spool(folder) as spool:
        assert [file.rows for file in spool.seal()] == [1]


def test_a_half_written_parquet_file_is_not_taken_for_a_sealed_one(folder: Path):
    with Spool(folder) as spool:
        spool.append([row(1)])
    (folder / "sealed-00000.parquet.tmp").write_bytes(b"PAR1 half")

    with Spool(folder) as spool:
        assert [file.rows for file in spool.seal()] == [1]
    assert not list(folder.glob("*.tmp"))


def test_sealed_files_hold_the_documented_schema(folder: Path):
    with Spool(folder) as spool:
        spool.append([row(1, error="prompt has 9 tokens", text=None)])
        (file,) = spool.seal()

    assert pq.read_schema(file.path).equals(GENERATION_SCHEMA, check_metadata=True)
    assert pq.read_table(file.path).to_pylist()[0]["error"] == "prompt has 9 tokens"


def test_prompts_of_megabytes_are_stored_once_for_all_repeats_in_whatever_order_they_end(
    folder: Path, tmp_path: Path
):
    def rows(repeat: int) -> list[dict[str, Any]]:
        return [row(n, repeat=repeat, prompt=prompts[n]) for n in range(6)]

    words = [f"{random.Random(n).getrandbits(40):x}" for n in range(5_000)]
    prompts = [" ".join(random.Random(n).choices(words, k=95_000)) for n in range(6)]
    assert min(map(len, prompts)) > 1_000_000
    once = seal_table(pa.Table.from_pylist(rows(0), GENERATION_SCHEMA), tmp_path / "once.parquet")
    with Spool(folder) as spool:
        for repeat in (2, 0, 3, 1):  # all questions once, then all again
            spool.append(rows(repeat))
        (sealed,) = spool.seal()

        assert sealed.bytes < 1.02 * once.bytes
        table = pq.read_table(sealed.path)
    keys = list(zip(table["index"].to_pylist(), table["repeat"].to_pylist(), strict=True))
    assert keys == [(n, repeat) for n in range(6) for repeat in (2, 0, 3, 1)]
    assert table["prompt"].to_pylist() == [prompts[n] for n, _ in keys]


def test_a_process_that_only_publishes_is_told_apart_from_one_that_generates(folder: Path):
    for only_publishes in (False, True):
        with Spool(folder, only_publishes=only_publishes):
            with pytest.raises(SpoolBusyError) as caught, Spool(folder):
                pass
            assert caught.value.is_brief == only_publishes
            assert is_from_this_machine(folder)


def test_a_spool_that_its_publisher_removed_is_made_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    take = Ownership.take

    def take_after_the_publisher(self: Ownership) -> None:
        shutil.rmtree(folder)
        take(self)

    monkeypatch.setattr(Ownership, "take", take_after_the_publisher)
    with Spool(folder) as spool:
        spool.append([row(1)])
        assert spool.rows == 1


def test_rows_reported_before_a_kill_are_on_disk(folder: Path):
    reader, writer = os.pipe()
    if not (child := os.fork()):
        try:
            with Spool(folder) as spool:
                for number in itertools.count():
                    spool.append([row(number)])
                    os.write(writer, b".")
        finally:
            os._exit(1)
    with os.fdopen(reader, "rb") as told:
        reported = len(told.read(200))
        os.kill(child, signal.SIGKILL)
        os.close(writer)
        reported += len(told.read())
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])

    with Spool(folder) as spool:
        assert {(f"sample-{number:05d}", 0) for number in range(reported)} <= spool.states().done


def samples(spool: Spool) -> list[str]:
    """Sample ids of all rows of the spool, file by file, after sealing."""
    files = spool.seal()
    return [name for file in files for name in pq.read_table(file.path)["sample_id"].to_pylist()]


def test_rows_that_were_sealed_and_not_published_stay_and_are_not_generated_again(folder: Path):
    with Spool(folder) as spool:
        spool.append([row(1), row(2)])
        spool.seal()  # and then publishing failed
        stored = spool.states().done
    with Spool(folder) as spool:
        assert spool.states().done == stored == {("sample-00001", 0), ("sample-00002", 0)}
        spool.append([row(3)])
        assert samples(spool) == ["sample-00001", "sample-00002", "sample-00003"]
    with Spool(folder) as spool:
        spool.append([row(4)])
        assert samples(spool) == [f"sample-{number:05d}" for number in (1, 2, 3, 4)]


@pytest.mark.parametrize("cut", [1, 2, 10])
def test_a_line_that_was_cut_anywhere_is_dropped_and_generated_again(
    folder: Path, cut: int, caplog: pytest.LogCaptureFixture
):
    with Spool(folder) as spool:
        spool.append([row(1), row(2)])
    journal = next(folder.glob("journal-*.jsonl"))
    journal.write_bytes(journal.read_bytes()[:-cut])

    with Spool(folder) as spool:
        assert spool.states().done == {("sample-00001", 0)}
        spool.append([row(2)])
        assert samples(spool) == ["sample-00001", "sample-00002"]
    assert caplog.records == []  # no damage to tell


def test_damage_within_a_journal_is_told_and_what_stands_before_it_is_kept(
    folder: Path, caplog: pytest.LogCaptureFixture
):
    with Spool(folder) as spool:
        spool.append([row(1)])
    journal = next(folder.glob("journal-*.jsonl"))
    whole = journal.read_bytes()
    journal.write_bytes(whole + b"\0\0damage\n" + whole)

    with Spool(folder) as spool:
        assert samples(spool) == ["sample-00001"]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"'{journal}' is damaged from byte {len(whole)} on" in record.getMessage()


def test_rows_are_synced_before_they_are_reported(folder: Path, monkeypatch: pytest.MonkeyPatch):
    synced: list[tuple[str, int]] = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append((path.name.split("-")[0], os.fstat(descriptor).st_size))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    with Spool(folder) as spool:
        spool.append([row(1)])
        journal = next(folder.glob("journal-*.jsonl"))
        assert ("journal", journal.stat().st_size) in synced
        assert folder.name in [name for name, _ in synced]  # the name of the new file


def test_an_error_says_what_is_kept_and_what_to_do():
    message = str(SpoolError("/spool", "No space left on device"))

    assert message.startswith("Spool '/spool': No space left on device.")
    assert "It keeps the answers so far." in message
    assert "run the same command again" in message
    assert "REGRADE_SPOOL can name another folder" in message


def test_a_spool_is_where_earlier_versions_left_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REGRADE_SPOOL", str(tmp_path))

    folder = spool_folder("hf://datasets/org/answers", "0123456789abcdef")

    assert folder.relative_to(tmp_path).as_posix() == "118c8ca7cb9b/0123456789abcdef"


def test_rows_belong_to_the_session_that_began_before_them(folder: Path):
    with Spool(folder) as spool:
        spool.append([row(1)])
        spool.begin("0123456789ab")
        spool.append([row(2)])
        spool.begin("ba9876543210")
        spool.append([row(3)])

        assert [file.session for file in spool.seal()] == [None, "0123456789ab", "ba9876543210"]


@pytest.mark.parametrize(("size", "files"), [(1, 3), (2**20, 1), (None, 1)])
def test_a_journal_is_closed_when_it_is_large(
    folder: Path, monkeypatch: pytest.MonkeyPatch, size: int | None, files: int
):
    if size is not None:
        monkeypatch.setattr("regrade.answers.spool.MAX_JOURNAL_BYTES", size)
    with Spool(folder) as spool:
        for number in range(3):
            spool.append([row(number)])

        assert len(list(folder.glob("journal-*.jsonl"))) == files
        assert len(samples(spool)) == 3


def test_a_sealed_file_that_is_damaged_is_named(folder: Path):
    with Spool(folder) as spool:
        spool.append([row(1)])
        (sealed,) = spool.seal()
        sealed.path.write_bytes(b"PAR1 and nothing else")

        with pytest.raises(DamagedAnswersError, match=sealed.path.name):
            spool.states()


def test_files_that_cannot_be_removed_after_publishing_do_no_harm(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("regrade.answers.spool.shutil.rmtree", refuse)
    with Spool(folder) as spool:
        spool.append([row(1)])
        published = spool.seal()
        spool.release(shard.path for shard in published)
        spool.remove()


def test_a_spool_that_cannot_be_made_says_where_and_why(tmp_path: Path):
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "spool"

    with pytest.raises(SpoolError) as caught, Spool(folder):
        pass

    assert (caught.value.folder, caught.value.problem) == (str(folder), "Not a directory")


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    ("replaced", "step"),
    [
        ("os.fsync", lambda spool: spool.append([row(2)])),
        ("regrade.answers.spool.write_parquet", Spool.seal),
        ("regrade.answers.spool.atomic_write", lambda spool: spool.note_origin({})),
    ],
    ids=["append", "seal", "note the origin"],
)
def test_a_full_disk_is_told_with_the_folder_of_the_spool(
    folder: Path, monkeypatch: pytest.MonkeyPatch, replaced: str, step: Callable[[Spool], object]
):
    with Spool(folder) as spool:
        spool.append([row(1)])
        with monkeypatch.context() as patch:
            patch.setattr(replaced, full)
            with pytest.raises(SpoolError) as caught:
                step(spool)
        told = (caught.value.folder, caught.value.problem)
        assert told == (str(folder), "No space left on device")
        assert samples(spool) == ["sample-00001"]


def test_a_first_batch_that_met_a_full_disk_leaves_a_spool_that_can_be_sealed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    with Spool(folder) as spool:
        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", full)
            patch.setattr("regrade.answers.spool.sync", lambda _: None)  # the folder of the journal
            with pytest.raises(SpoolError, match="No space left on device"):
                spool.append([row(1)])
        assert samples(spool) == []
        spool.append([row(1)])
        assert samples(spool) == ["sample-00001"]


@pytest.mark.parametrize(
    ("variable", "expected"), [("XDG_STATE_HOME", "."), ("HOME", ".local/state")]
)
def test_spools_are_in_the_state_folder_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, expected: str
):
    monkeypatch.delenv("REGRADE_SPOOL", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv(variable, str(tmp_path))

    assert spool_root() == tmp_path / expected / "regrade" / "spool"


@pytest.mark.parametrize("kind", [SpoolError, SpoolBusyError])
def test_an_error_of_the_spool_keeps_its_message_between_processes(
    kind: type[SpoolError | SpoolBusyError],
):
    error = kind("/spool", "why")

    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_no_other_user_reads_answers_that_are_not_published_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("REGRADE_SPOOL", str(tmp_path / "state" / "spool"))
    with Spool(spool_folder("uri", "set")):
        pass
    assert stat.S_IMODE((tmp_path / "state" / "spool").stat().st_mode) == 0o700


def test_only_rows_of_a_run_that_has_ended_are_named_as_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("REGRADE_SPOOL", str(tmp_path / "spool"))

    if not (child := os.fork()):
        status = 1
        try:
            spool = Spool(spool_folder("/answers", "1234")).__enter__()
            spool.append([row(1)])
            status = len(interrupted("/answers"))
        finally:
            os._exit(status)  # as SIGKILL ends it

    assert os.waitpid(child, 0)[1] == 0
    assert interrupted("/answers") == ["1234"]
    assert interrupted("/others") == []
