"""sha256 of files, remembered, so that the weights of one model are read only once for it."""

import hashlib
import os
import tempfile
from pathlib import Path

CACHE_VARIABLE = "REGRADE_CACHE"
"""Environment variable with the folder for what can be computed again."""


def cache_folder() -> Path:
    """Return the folder for what can be computed again."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regrade"


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file; a file of unchanged path, size and time is not read again.

    The memory holds one small file per hashed file, so that several processes need no lock.
    """
    stat = path.stat()
    key = f"{path.resolve()}\0{stat.st_size}\0{stat.st_mtime_ns}"
    entry = cache_folder() / "sha256" / hashlib.sha256(key.encode()).hexdigest()
    if entry.is_file() and len(known := entry.read_text()) == 64:
        return known
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if path.stat().st_mtime_ns == stat.st_mtime_ns:  # not while someone still writes it
        _remember(entry, digest)
    return digest


def _remember(entry: Path, digest: str) -> None:
    entry.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=entry.parent)
    with os.fdopen(descriptor, "w") as file:
        file.write(digest)
    Path(temporary).replace(entry)
