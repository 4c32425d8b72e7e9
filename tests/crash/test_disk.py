"""Full or read-only disks: a clear message, and no reported row is lost."""

import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.origin import begin_session
from regrade.answers.publishing import publish_leftovers
from regrade.answers.spool import Spool, SpoolError, spool_folder
from tests.builders import description, row, session
from tests.command_line import ROOT
from tests.crash.conftest import LIMIT
from tests.crash.harness import generating, spooled, stored, whole_rows

APPENDING = """
import sys
from pathlib import Path
from regrade.answers.spool import Spool, SpoolError
from tests.builders import row

with Spool(Path(sys.argv[1])) as spool:
    try:
        for number in range(10_000):
            spool.append([row(2 * number), row(2 * number + 1)])
            print(2 * number, 2 * number + 1, flush=True)
    except SpoolError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
"""


def test_a_write_that_only_half_fits_leaves_whole_rows_alone(tmp_path: Path):
    """The kernel accepts a part of the last write before it reports a full disk."""
    limit = 20_123

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    folder = tmp_path / "spool"
    ran = subprocess.run(
        [sys.executable, "-B", "-c", APPENDING, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=small_files,
    )
    assert ran.returncode == 1, ran.stderr
    assert "File too large" in ran.stderr
    assert "run the same command again" in ran.stderr
    reported = {(f"sample-{int(word):05d}", 0) for word in ran.stdout.split()}
    assert len(reported) > 10
    with Spool(folder) as spool:
        assert spool.states().done == reported
        spool.append([row(99_999)])
        assert sum(file.rows for file in spool.seal()) == len(reported) + 1


def test_what_cannot_be_read_behind_whole_rows_is_left_out(tmp_path: Path):
    with Spool(tmp_path / "spool") as spool:
        spool.append([row(1), row(2)])
    (journal,) = (tmp_path / "spool").glob("journal-*")
    with journal.open("ab") as file:
        file.write(b"\0" * 100 + b"\n" + b"\0" * 100)  # as after a power cut

    with Spool(tmp_path / "spool") as spool:
        assert len(spool.states().done) == 2
        spool.append([row(3)])
        assert sum(file.rows for file in spool.seal()) == 3


@dataclass(frozen=True)
class SmallDisk:
    folder: Path

    def set(self, options: str) -> None:
        subprocess.run(
            ["mount", "-o", f"remount,{options}", str(self.folder)], check=True, capture_output=True
        )


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A file system of 64 KiB; needs root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system needs root")
    yield SmallDisk(folder)
    subprocess.run(["umount", str(folder)], check=True)


def test_rows_of_a_killed_run_wait_until_their_read_only_disk_can_be_written(
    disk: SmallDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("REGRADE_SPOOL", str(disk.folder))
    disk.set("size=1m")
    repository, asked = LocalRepository(tmp_path / "answers"), description(5)
    folder = spool_folder(repository.uri, asked.specification.answer_set_id)
    if not (process := os.fork()):
        try:
            with Spool(folder) as spool:
                begin_session(spool, repository.uri, asked, session())
                spool.append([row(number) for number in range(5)])
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    os.waitpid(process, 0)

    disk.set("ro")
    (refused,) = publish_leftovers()
    assert isinstance(refused.error, SpoolError)
    assert re.search("Read-only file system.*make it writable", str(refused.error))
    assert repository.head() is None
    assert len(spooled(disk.folder)) == 5

    disk.set("rw")
    (found,) = publish_leftovers()
    assert found.published is not None
    whole_rows(repository, 5)
    assert spooled(disk.folder) == {}


@pytest.mark.slow
@pytest.mark.prefect
def test_a_run_whose_disk_runs_full_goes_on_when_there_is_room(
    disk: SmallDisk, served: Path, prefect_server: str, tmp_path: Path
):
    repository = LocalRepository(tmp_path / "answers")
    spool = str(disk.folder)
    command = generating(
        served, repository.folder, tmp_path / "here", prefect_server, REGRADE_SPOOL=spool
    )

    failed = command.finish()

    assert failed.code == 1, failed.err
    assert "No space left on device" in failed.err
    assert "Free some space" in failed.err
    assert "Traceback" not in failed.err
    command.assert_nothing_left()
    left = spooled(disk.folder) | dict(stored(repository))
    assert 0 < len(left) < LIMIT

    disk.set("size=8m")
    done = command.finish()
    assert done.code == 0, done.err
    assert left.items() <= whole_rows(repository, LIMIT).items()
