"""Cached sha256 of files: the weights of a model are hashed only once."""

import hashlib
import logging
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from regrade.processes.repeating import RepeatingThread
from regrade.settings.files import cache_folder, file_sha256, keep

logger = logging.getLogger("regrade.plan")

LONG_BYTES = 2**30
"""Size in bytes from which hashing, which takes seconds or more, is announced."""
REPORT_SECONDS = 10.0
"""Seconds between two log lines about the progress of hashing."""
_KNOWN: dict[Path, str] = {}
"""The sha256 that this process knows, by entry of the cache, which may be a folder that cannot be written."""
N_THREADS = 4
"""Files hashed at once; hashlib releases the interpreter lock."""


def cached_sha256(path: Path, on_read: Callable[[int], None] = lambda _: None) -> str:
    """Return the sha256 of a file; a file of unchanged path, size, time and inode is not read again.

    The cache holds one small file per hashed file, so that several processes need no lock.

    Args:
        path: The file.
        on_read: Called with the number of bytes of each part that was read.
    """
    entry = _entry(path, path.stat())
    if entry.is_file() and len(known := entry.read_text()) == 64:
        return known
    if entry in _KNOWN:
        return _KNOWN[entry]
    digest = file_sha256(path, on_read)
    if _entry(path, path.stat()) == entry:  # unless the file changed meanwhile
        keep(entry, digest.encode())
        _KNOWN[entry] = digest
    return digest


def path_sha256(path: Path) -> str:
    """Return the sha256 of a file, or of all files in a folder."""
    if path.is_file():
        return cached_sha256(path)
    return files_sha256(path, (file for file in path.rglob("*") if file.is_file()))


def files_sha256(folder: Path, files: Iterable[Path]) -> str:
    """Return a sha256 over the names and contents of files in a folder."""
    ordered = sorted(files)
    stats = [(path, path.stat()) for path in ordered]
    entries = [(stat.st_size, _entry(path, stat)) for path, stat in stats]
    size = sum(bytes_ for bytes_, entry in entries if entry not in _KNOWN and not entry.is_file())
    read: list[int] = []  # sizes of parts; threads may append at once

    def report() -> None:
        logger.info("hashing '%s': %.1f of %.1f GB", folder, sum(read) / 1e9, size / 1e9)

    if size > LONG_BYTES:
        logger.info(
            "hashing %.0f GB of '%s'; unchanged files are not hashed again", size / 1e9, folder
        )
    with RepeatingThread(REPORT_SECONDS, report, "hashing"), ThreadPoolExecutor(N_THREADS) as pool:
        digests = list(pool.map(lambda path: cached_sha256(path, read.append), ordered))
    total = hashlib.sha256()
    for path, digest in zip(ordered, digests, strict=True):
        total.update(f"{path.relative_to(folder).as_posix()}\0{digest}\n".encode())
    return total.hexdigest()


def _entry(path: Path, stat: os.stat_result) -> Path:
    key = f"{path.resolve()}\0{stat.st_size}\0{stat.st_mtime_ns}\0{stat.st_ino}"
    return cache_folder() / "sha256" / hashlib.sha256(key.encode()).hexdigest()
