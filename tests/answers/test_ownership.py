"""Owners of spools: a dead owner's is taken over, a living one's never."""

import errno
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from regrade.answers import ownership
from regrade.answers.ownership import Busy, Ownership, last_owner, owned, this_process
from regrade.answers.spool import Spool, SpoolBusyError
from regrade.settings.errors import TrackingError
from regrade.tracking import connection
from tests.builders import row
from tests.command_line import ROOT

HOLDER = """
import sys
from pathlib import Path
from regrade.answers.spool import Spool
from tests.builders import row
with Spool(Path(sys.argv[1])) as spool:
    spool.append([row(0)])
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spool" / "set"


def none(descriptor: int, operation: int) -> None:
    raise OSError(errno.ENOLCK, "No locks available")


def own(descriptor: int, operation: int) -> None:
    pass


@pytest.fixture(params=["locks", "no locks", "own locks"])
def locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """File systems: with locks, without, and with locks that each machine grants itself."""
    if request.param != "locks":
        monkeypatch.setattr(fcntl, "flock", {"no locks": none, "own locks": own}[request.param])


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", none)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_LOCK_SECONDS", 0)
    monkeypatch.setattr(ownership, "BEAT", 0.1)
    monkeypatch.setattr(ownership, "SILENCE", 0.5)


@contextmanager
def holder(folder: Path, program: str = HOLDER) -> Iterator["subprocess.Popen[str]"]:
    """A process that owns a spool with one row, or what another program makes it own."""
    with subprocess.Popen(
        [sys.executable, "-c", program, str(folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def dead(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the spool `set` as a killed owner left it: a process that starts takes half a second of a CPU."""
    folder = tmp_path_factory.mktemp("dead") / "spool" / "set"
    with holder(folder) as process:
        process.kill()
        process.wait()
    return folder.parent


@pytest.fixture
def left(dead: Path, folder: Path) -> None:
    """The owner of the test's spool was killed."""
    shutil.copytree(dead, folder.parent)


def note(folder: Path, **changes: Any) -> Path:
    """Change what is noted about the owner of a spool."""
    (path,) = folder.parent.glob(f"{folder.name}.owner-*")
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return path


ELSEWHERE: dict[str, dict[str, Any]] = {
    "another node": {"host": "node-b", "boot": "other"},
    "before a restart": {"boot": "other"},
    "another container": {"namespace": 1},
    "a system that tells nothing": {"boot": None, "namespace": None, "started": None},
}


@pytest.mark.usefixtures("locks", "left")
def test_a_killed_owner_of_this_machine_is_succeeded_at_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ownership, "SILENCE", 600)
    with Spool(folder) as spool:
        assert len(spool.states().done) == 1


OWNED = """
import sys
from pathlib import Path
from regrade.answers.ownership import owned
with owned(Path(sys.argv[1]), 60):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.usefixtures("locks")
def test_a_database_whose_name_looks_like_a_pattern_has_an_owner(tmp_path: Path) -> None:
    database = tmp_path / "runs[1].db"
    with owned(database, 0):
        assert last_owner(database) == this_process()
    Ownership(database).take()  # and is never released
    with pytest.raises(Busy), owned(database, 0):
        pass


@pytest.mark.usefixtures("locks")
def test_a_database_is_waited_for_while_its_owner_lives_and_no_longer(folder: Path):
    folder.parent.mkdir()
    with holder(folder, OWNED) as process:
        refused = pytest.raises(TrackingError, match=f"process {process.pid} on .* for 0 s")
        with refused, connection._locked(f"sqlite:///{folder}"):
            pass
        process.kill()
        process.wait()
    note(folder, **ELSEWHERE["another node"])
    with ownership.owned(folder, 20):
        pass
    assert [path.name for path in folder.parent.iterdir()] == [f"{folder.name}.lock"]


@pytest.mark.usefixtures("locks")
def test_a_living_owner_of_this_machine_keeps_its_spool_even_if_it_is_stopped(folder: Path):
    with holder(folder) as process:
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        with pytest.raises(SpoolBusyError, match=f"process {process.pid} on"), Spool(folder):
            pass


@pytest.mark.usefixtures("left")
def test_the_id_of_a_process_that_is_used_again_is_no_owner(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ownership, "SILENCE", 600)
    mine = this_process()
    assert mine.started is not None
    note(folder, process=os.getpid(), started=mine.started - 1)
    with Spool(folder) as spool:
        assert len(spool.states().done) == 1


def test_an_owner_whose_end_its_parent_has_not_noticed_is_dead(folder: Path):
    with holder(folder) as process:
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # a zombie
        with Spool(folder):
            pass


@pytest.mark.usefixtures("locks", "left")
@pytest.mark.parametrize("changes", ELSEWHERE.values(), ids=ELSEWHERE)
def test_a_dead_owner_elsewhere_is_succeeded_after_its_silence(
    folder: Path, changes: dict[str, Any]
):
    note(folder, **changes)
    begun = time.monotonic()
    with Spool(folder) as spool:
        assert len(spool.states().done) == 1
    assert time.monotonic() - begun >= ownership.SILENCE


@pytest.mark.usefixtures("no_locks")
@pytest.mark.parametrize("changes", ELSEWHERE.values(), ids=ELSEWHERE)
def test_a_living_owner_elsewhere_keeps_its_spool_by_its_heartbeat(
    folder: Path, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ownership, "SILENCE", 60.0)
    with Spool(folder):  # its thread beats
        note(folder, process=1, **changes)
        with pytest.raises(SpoolBusyError, match="process 1 on"), Spool(folder):
            pass


@pytest.mark.usefixtures("left")
def test_a_clock_that_jumps_neither_kills_nor_revives_an_owner(folder: Path):
    path = note(folder, boot="other")
    for jump in (-(10**9), 10**9):
        os.utime(path, (time.time() + jump,) * 2)
        with Spool(folder) as spool:
            assert len(spool.states().done) == 1
        path = note(folder, boot="other", is_held=True)


@pytest.mark.usefixtures("no_locks")
def test_an_owner_that_was_silent_and_lost_its_spool_reports_no_further_row(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ownership, "BEAT", 1000.0)  # frozen
    with Spool(folder) as frozen:
        frozen.append([row(1)])
        note(folder, boot="other")
        monkeypatch.setattr(ownership, "BEAT", 0.1)
        with Spool(folder) as heir:
            assert len(heir.states().done) == 1
            heir.begin("heir")
            heir.append([row(2)])
            for act in (lambda: frozen.append([row(3)]), frozen.seal):
                with pytest.raises(SpoolBusyError, match=f"process {os.getpid()}"):
                    act()
            frozen.remove()
            heir.append([row(4)])
            assert heir.states().done >= {(f"sample-{number:05d}", 0) for number in (1, 2, 4)}


@pytest.mark.usefixtures("no_locks", "left")
def test_of_many_that_find_a_dead_owner_one_succeeds_it(folder: Path):
    note(folder, boot="other")
    owners, refused, together = [], [], threading.Barrier(8)

    def try_once() -> None:
        together.wait()
        try:
            with Spool(folder) as spool:
                owners.append(spool)
                time.sleep(3)
        except SpoolBusyError as busy:
            refused.append(busy)

    with ThreadPoolExecutor(8) as pool:
        for _ in range(8):
            pool.submit(try_once)
    assert (len(owners), len(refused)) == (1, 7)


def test_a_spool_whose_files_somebody_removed_reports_no_further_row(folder: Path):
    with Spool(folder) as spool:
        spool.append([row(1)])
        for path in folder.glob("journal-*"):
            path.unlink()
        with pytest.raises(Exception, match="removed"):
            spool.append([row(2)])
