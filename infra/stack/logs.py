"""Keep the logs of the stack small."""

import re
import shutil
import time
from pathlib import Path

LIMIT_BYTES = 20_000_000
"""Size at which the log of a part is rotated."""
KEPT = 3
"""Rotated logs of a part, besides the current one."""
RUN_LOG = re.compile(r"-\d{8}T\d{6}-\d+\.log")
"""End of the name of an engine's log (`regrade.settings.files.log_file`): a new file for each run."""
RUN_LOG_DAYS = 30
"""Age at which an engine's log is deleted."""


def tidy(folder: Path) -> None:
    """Rotate large logs of parts, and delete old logs of engines.

    A log is copied and then cut, as by logrotate's `copytruncate`, because a part keeps its file open. The part must have
    opened it for appending. Lines that are written between the two steps are lost.
    """
    oldest = time.time() - RUN_LOG_DAYS * 24 * 3600
    for path in folder.glob("*.log"):
        if not RUN_LOG.search(path.name) and path.stat().st_size > LIMIT_BYTES:
            _rotate(path)
    for path in folder.rglob("*.log"):  # workers may write into subfolders: links are not followed
        if RUN_LOG.search(path.name) and path.lstat().st_mtime < oldest:
            path.unlink(missing_ok=True)


def _rotate(path: Path) -> None:
    for number in range(KEPT, 1, -1):
        earlier = path.with_name(f"{path.name}.{number - 1}")
        if earlier.exists():
            earlier.replace(path.with_name(f"{path.name}.{number}"))
    copy = path.with_name(f"{path.name}.1")
    shutil.copy2(path, copy)
    with path.open("r+b") as log:
        log.truncate()
