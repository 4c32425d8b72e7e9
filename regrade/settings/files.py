"""Files: sha256, durable atomic writes, and the folders of caches, spools and logs."""

import hashlib
import logging
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from io import FileIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from regrade.settings.errors import SettingsError

logger = logging.getLogger("regrade")
CACHE_VARIABLE = "REGRADE_CACHE"
"""Environment variable naming the cache folder."""


def at_home(path: str | Path) -> Path:
    """Return a path with the folder of a user in place of `~`, or of `~` and a name.

    Raises:
        SettingsError: If there is no such user.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise SettingsError(
            f"'{path}' begins in the folder of a user that this machine does not have."
        ) from error


def path_of(address: str) -> Path:
    """Return the folder at an address, which may be a path or begin with `file://`; errors as in `at_home`."""
    is_address = address.startswith("file://")
    return at_home(unquote(urlsplit(address).path) if is_address else address)


def named_folder(variable: str) -> Path | None:
    """Return the absolute folder that an environment variable names, in which `~` is the user's own; None if it names none."""
    name = os.environ.get(variable)
    return at_home(name).absolute() if name else None


def users_folder(variable: str, default: str) -> Path:
    """Return regrade's folder in the one that an environment variable of the XDG names, else in `default`."""
    return (named_folder(variable) or at_home(default)) / "regrade"


def cache_folder() -> Path:
    """Return the cache folder: `REGRADE_CACHE`, or a folder in the user's cache."""
    return named_folder(CACHE_VARIABLE) or users_folder("XDG_CACHE_HOME", "~/.cache")


def spool_root() -> Path:
    """Return the folder of all spools: `REGRADE_SPOOL`, or a folder in the user's state folder."""
    return (
        named_folder("REGRADE_SPOOL") or users_folder("XDG_STATE_HOME", "~/.local/state") / "spool"
    )


def log_file(kind: str) -> Path:
    """Return a new path `KIND-TIME-PID.log` in the folder `REGRADE_LOGS`, else in `logs` beside the spool.

    Raises:
        SettingsError: If no files can be made in the folder.
    """
    folder = named_folder("REGRADE_LOGS") or spool_root().with_name("logs")
    try:
        with suppress(FileExistsError):
            folder.mkdir(parents=True)
        with TemporaryFile(dir=folder):  # a folder of another user may be there and not be writable
            pass
    except OSError as error:
        raise SettingsError(
            f"Logs cannot be written to '{folder}' ({error.strerror}). Set REGRADE_LOGS to a folder that can be written."
        ) from error
    return folder / f"{kind}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}.log"


def file_sha256(path: Path, on_read: Callable[[int], None] = lambda _: None) -> str:
    """Return the sha256 of a file; `on_read` is called with the number of bytes of each part that was read."""
    with _Read(path, on_read) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Read(FileIO):
    """A file that reports the number of bytes read."""

    def __init__(self, path: Path, on_read: Callable[[int], None]) -> None:
        super().__init__(path)
        self._on_read = on_read

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 - any writable buffer
        n = super().readinto(buffer)
        self._on_read(n)
        return n


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that durably replaces `path` when the block ends, and is deleted after an error.

    Until then it is a file `<name>.<random>.tmp` in the same folder.
    """
    temporary = path.with_name(f"{path.name}.{uuid4().hex}.tmp")
    try:
        with temporary.open("wb") as file:
            share(temporary)
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)


def write_atomically(path: Path, content: bytes) -> None:
    """Make the folders above a file, and durably replace its content."""
    make_folder(path.parent)
    with atomic_write(path) as file:
        file.write(content)


def keep(path: Path, content: bytes) -> None:
    """Replace a file of a cache. If its folder cannot be written, that only costs time, and is logged once for the folder."""
    try:
        write_atomically(path, content)
    except OSError as error:
        _not_kept(path.parent, str(error.strerror))


@cache
def _not_kept(folder: Path, reason: str) -> None:
    logger.warning("what is kept in '%s' to save time is made again each time: %s", folder, reason)


def write_durably(path: Path, content: bytes, *, exclusively: bool = False) -> None:
    """Write a whole file and flush it to disk; after an error, a file that was created `exclusively` is removed.

    Raises:
        FileExistsError: If it exists and is to be created `exclusively`.
    """
    with path.open("xb" if exclusively else "wb") as file:
        try:
            share(path)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            if exclusively:
                path.unlink(missing_ok=True)
            raise


def make_folder(path: Path) -> None:
    """Create a folder and those above it durably, each with the rights of the one above for a group that shares it."""
    if not path.is_dir():
        make_folder(path.parent)
        with suppress(FileExistsError):  # another process was faster
            path.mkdir()
            share(path)
            sync(path.parent)


def share(path: Path) -> None:
    """Give a new file or folder the rights of the group for which the folder around it is shared (setgid), whatever the umask."""
    around = path.parent.stat().st_mode
    if around & stat.S_ISGID:
        mode = path.stat().st_mode
        rights = around & (stat.S_IRWXG if stat.S_ISDIR(mode) else stat.S_IRGRP | stat.S_IWGRP)
        if mode | rights != mode:
            path.chmod(stat.S_IMODE(mode | rights))


def time_there(folder: Path) -> float:
    """Return the time by which a file system dates its files now; this machine's clock may be another one, or jump."""
    with TemporaryFile(dir=folder) as file:
        return os.fstat(file.fileno()).st_mtime


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
