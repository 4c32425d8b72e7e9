"""Cached sha256 of files: the weights of a model are hashed only once."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from regrade.files import atomic_write, file_sha256

CACHE_VARIABLE = "REGRADE_CACHE"
"""Environment variable naming the cache folder."""


def cache_folder() -> Path:
    """Return the cache folder: `REGRADE_CACHE`, or a folder in the user's cache."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regrade"


def cached_sha256(path: Path) -> str:
    """Return the sha256 of a file; a file of unchanged path, size and time is not read again.

    The cache holds one small file per hashed file, so that several processes need no lock.
    """
    stat = path.stat()
    key = f"{path.resolve()}\0{stat.st_size}\0{stat.st_mtime_ns}"
    entry = cache_folder() / "sha256" / hashlib.sha256(key.encode()).hexdigest()
    if entry.is_file() and len(known := entry.read_text()) == 64:
        return known
    digest = file_sha256(path)
    if path.stat().st_mtime_ns == stat.st_mtime_ns:  # unless the file changed meanwhile
        entry.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(entry) as file:
            file.write(digest.encode())
    return digest


def path_sha256(path: Path) -> str:
    """Return the sha256 of a file, or of all files in a folder."""
    if path.is_file():
        return cached_sha256(path)
    return files_sha256(path, (file for file in path.rglob("*") if file.is_file()))


def files_sha256(folder: Path, files: Iterable[Path]) -> str:
    """Return a sha256 over the names and contents of files in a folder."""
    total = hashlib.sha256()
    for path in sorted(files):
        total.update(f"{path.relative_to(folder).as_posix()}\0{cached_sha256(path)}\n".encode())
    return total.hexdigest()
