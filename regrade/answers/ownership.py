"""The one process that owns a spool, or another file, told without a lock that has to reach other machines.

    <spool>.owner-<number>   the owner: host, boot, process; its modification time is its heartbeat
    <spool>.lock             flock(2) of the owner: where it works, an owner that holds it is alive

A number is taken by creating its file exclusively, which holds between the clients of a network file system. A new owner
removes the files of former ones, so that one which was only silent notices before it reports another row as stored.

An owner of the same boot and process namespace is alive if its process is: its id and the time of its start are compared. Of
any other, such as one of another node, of before a restart, or in another container, only the heartbeat tells. It is watched with
this process's monotonic clock: clocks of machines may differ and jump.
"""

import fcntl
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from glob import escape
from pathlib import Path

import orjson

from regrade.settings.files import atomic_write, share, write_durably

logger = logging.getLogger(__name__)

BEAT = 5.0
"""Seconds between two heartbeats."""
SILENCE = 60.0
"""Seconds without a heartbeat after which an owner counts as dead."""


@dataclass(frozen=True)
class Owner:
    """A process that owns, or last owned, a spool."""

    host: str
    boot: str | None
    """Random id of the running kernel; None if the system does not tell it."""
    namespace: int | None
    """Namespace of process ids."""
    process: int
    started: int | None
    """Start of the process in clock ticks since boot: ids of processes are used again."""
    purpose: str = ""
    """Use of the spool, for people; empty if it generates."""
    is_held: bool = True

    def __str__(self) -> str:
        return f"process {self.process}{self.purpose} on {self.host}"

    @property
    def is_from_here(self) -> bool:
        """True if it ran on this machine, as far as its name tells."""
        return self.host == socket.gethostname()

    @property
    def is_alive(self) -> bool | None:
        """True or False if that can be told from the processes seen here, else None."""
        here = this_process()
        if None in (here.boot, here.namespace, self.started):
            return None
        if (self.boot, self.namespace) != (here.boot, here.namespace):
            return None
        return _started(self.process) == self.started


def this_process(purpose: str = "") -> Owner:
    """Return this process as an owner."""
    boot = namespace = None
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = Path("/proc/self/ns/pid").stat().st_ino
    process = os.getpid()
    return Owner(socket.gethostname(), boot, namespace, process, _started(process), purpose)


def _started(process: int) -> int | None:
    """Return the start of a process; None if it has ended, even if its parent has not noticed."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def last_owner(folder: Path) -> Owner | None:
    """Return the process that owns a spool or was the last to own it; None if that is not known."""
    newest = _newest(folder)
    return None if newest is None else _read(newest[1])


class Busy(Exception):  # noqa: N818 - no failure
    """A living process owns the spool."""

    def __init__(self, owner: Owner | None) -> None:
        self.owner = owner
        super().__init__(owner)


class Ownership:
    """Ownership of a spool's folder by this process."""

    def __init__(self, folder: Path, purpose: str = "") -> None:
        self._folder, self._purpose = folder, purpose
        self._path: Path | None = None
        self._content = b""
        self._lock: int | None = None
        self._ends = threading.Event()

    def take(self) -> None:
        """Become the owner.

        Raises:
            Busy: If a living process is.
        """
        self._lock = self._flock()
        try:
            while not self._take():
                pass
        except BaseException:
            self._unlock()
            raise
        self._ends = threading.Event()
        threading.Thread(target=self._beat, args=(self._path, self._ends), daemon=True).start()

    def check(self) -> None:
        """Check that this process still owns the spool: after a long silence, another one may have taken it.

        Raises:
            Busy: If another process does.
        """
        # Opened, because a network file system may remember names and times for a minute.
        if self._path is None or _content(self._path) != self._content:
            raise Busy(last_owner(self._folder))

    def release(self, *, forget: bool) -> None:
        """End the ownership; `forget` leaves no trace of it."""
        self._ends.set()
        path, self._path = self._path, None
        try:
            if path is not None and _content(path) == self._content:
                if forget:
                    path.unlink()
                else:
                    owner = asdict(this_process(self._purpose)) | {"is_held": False}
                    with atomic_write(path) as file:
                        file.write(orjson.dumps(owner))
        except OSError as error:
            logger.warning("the owner of '%s' cannot be noted: %s", self._folder, error.strerror)
        finally:
            self._unlock()

    def _take(self) -> bool:
        """Try once; False if another process was faster, or the owner has to be looked at again."""
        newest = _newest(self._folder)
        if newest is not None:
            owner = _read(newest[1])
            if owner is None or owner.is_held:
                if owner is not None and owner.is_alive:
                    raise Busy(owner)
                dead = owner is not None and owner.is_alive is False
                if not dead and not self._is_silent(newest[1], owner):
                    return False
        number = newest[0] + 1 if newest else 1
        path = _path(self._folder, number)
        content = orjson.dumps(asdict(this_process(self._purpose)))
        try:
            write_durably(path, content, exclusively=True)
        except FileExistsError:
            return False
        for other in _owners(self._folder):
            if other != path:
                other.unlink(missing_ok=True)
        self._path, self._content = path, content
        return True

    def _is_silent(self, path: Path, owner: Owner | None) -> bool:
        """Watch the heartbeat of an owner that cannot be seen from here; False if it ended or changed.

        Raises:
            Busy: If it lives.
        """
        told = "a process" if owner is None else str(owner)
        logger.info(
            "'%s' belongs to %s: waiting %.0f s for a sign of life", self._folder, told, SILENCE
        )
        first, content = _beats(path), _content(path)
        deadline = time.monotonic() + SILENCE
        while time.monotonic() < deadline:
            time.sleep(min(1.0, BEAT / 5))
            if (now := _beats(path)) != first:
                if now is None or _content(path) != content:
                    return False
                raise Busy(owner)
        return True

    def _flock(self) -> int | None:
        """Take the lock on this machine; None where the file system has no locks.

        Raises:
            Busy: If a process holds it.
        """
        path = self._folder.with_name(self._folder.name + ".lock")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            with suppress(PermissionError):  # another user's
                share(path)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise Busy(last_owner(self._folder)) from None
        except OSError:  # no locks here: the owner's file decides alone
            os.close(descriptor)
            return None
        return descriptor

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @staticmethod
    def _beat(path: Path, ends: threading.Event) -> None:
        while not ends.wait(BEAT):
            with suppress(OSError):  # the next one may come through; `check` finds a lost file
                os.utime(path)


@contextmanager
def owned(path: Path, seconds: float) -> Iterator[None]:
    """Own a file, such as a database, while a block runs; wait until its owner has ended.

    Raises:
        Busy: If others own it for as many seconds.
    """
    owner, deadline = Ownership(path), time.monotonic() + seconds
    while True:
        try:
            owner.take()
            break
        except Busy:
            if time.monotonic() > deadline:
                raise
            time.sleep(BEAT / 50)
    try:
        yield
    finally:
        owner.release(forget=True)


def _path(folder: Path, number: int) -> Path:
    return folder.with_name(f"{folder.name}.owner-{number}")


def _newest(folder: Path) -> tuple[int, Path] | None:
    numbers = [path.name.rpartition("-")[2] for path in _owners(folder)]
    newest = max((int(number) for number in numbers if number.isdecimal()), default=None)
    return None if newest is None else (newest, _path(folder, newest))


def _owners(folder: Path) -> Iterator[Path]:
    """Yield the files of owners; a name such as `runs[1].db` is no pattern."""
    return folder.parent.glob(f"{escape(folder.name)}.owner-*")


def _read(path: Path) -> Owner | None:
    """Return an owner; None if its file is gone, or was cut off by a crash."""
    try:
        return Owner(**orjson.loads(_content(path)))
    except (ValueError, TypeError):
        return None


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _beats(path: Path) -> int | None:
    """Return the time of the last heartbeat; None if the owner's file is gone."""
    try:
        with path.open("rb") as file:
            return os.fstat(file.fileno()).st_mtime_ns
    except FileNotFoundError:
        return None
