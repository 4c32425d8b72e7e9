"""Slots of this machine: at most n are held at the same time; other processes wait.

A slot is a file that is locked with flock(2). Child processes that inherit its descriptor hold it as well; the kernel
frees it when the last holder has ended, even by SIGKILL.
"""

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from regrade.settings.errors import OperationError

POLL = 0.2
"""Seconds between two attempts of the process that has waited longest."""


class Slot:
    """A held slot. As a context manager it is released at the end, if it was not before."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def descriptor(self) -> int:
        """Descriptor that child processes may inherit (`pass_fds`), to hold the slot as well.

        Raises:
            ValueError: If the slot was released.
        """
        if self._descriptor is None:
            raise ValueError("the slot was released")
        return self._descriptor

    def release(self) -> None:
        """Free the slot, also for processes that inherited it. Idempotent."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.ftruncate(descriptor, 0)
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


def machine_folder(name: str) -> Path:
    """Create and return a folder of this user on this machine; it is not on a network drive and not shared with others.

    Raises:
        OperationError: If another user made a folder of this name.
    """
    base = Path(tempfile.gettempdir()) / f"regrade-{os.getuid()}"
    with suppress(FileExistsError):
        base.mkdir(mode=0o700)
    if base.is_symlink() or not base.is_dir() or base.stat().st_uid != os.getuid():
        raise OperationError(f"'{base}' is not a folder of this user. Remove it, or set TMPDIR.")
    folder = base / name
    folder.mkdir(exist_ok=True)
    return folder


def take_slot(folder: Path, n: int, holder: str, on_wait: Callable[[str], None]) -> Slot:
    """Return a slot; if no slot is free, wait in the order of arrival.

    Call it on the main thread, where a signal whose handler raises interrupts the wait; in the microseconds before the
    wait begins, only a second signal does.

    Args:
        folder: Folder of the slots.
        n: Number of slots.
        holder: Description of this process for waiting processes.
        on_wait: Called with the descriptions of the holders, when the wait begins and when they change.
    """
    files = [_open(folder / f"slot-{number}") for number in range(n)]
    queue = _open(folder / "queue")
    held = None
    shown = ""

    def show() -> None:
        nonlocal shown
        if (holders := _holders(files)) != shown:
            shown = holders
            on_wait(holders)

    try:
        if not _try_lock(queue):
            show()
            fcntl.flock(queue, fcntl.LOCK_EX)  # the kernel wakes waiting processes in their order
        while (held := next(filter(_try_lock, files), None)) is None:
            show()
            time.sleep(POLL)
        os.ftruncate(held, 0)
        os.pwrite(held, holder.encode(), 0)
        return Slot(held)
    finally:
        for descriptor in {queue, *files} - {held}:
            os.close(descriptor)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holders(files: Sequence[int]) -> str:
    """Return the descriptions that the holders wrote; that of a killed process remains until the next holder writes."""
    found = (os.pread(descriptor, 4096, 0).decode(errors="replace") for descriptor in files)
    return ", ".join(filter(None, found))
