"""Show what pip is doing, and keep its output: `pip install ... 2>&1 | python infra/pip_progress.py LOG PACKAGES`.

On a terminal one line is rewritten, elsewhere a line is added every 15 seconds.
"""

import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

EVERY = 15.0
"""Seconds between two lines that are not rewritten."""
_COLLECTING = re.compile(r"Collecting ([^\s=<>]+)")
_DOWNLOADING = re.compile(r"\s*Downloading \S+ \((?P<size>[\d.]+ \w+)\)")
_UNPACKING = re.compile(r"Installing collected packages: (.+)")


def stages(output: Iterable[str], packages: int) -> Iterable[tuple[str, str]]:
    """Yield each line of pip's output with what it means to a person; "" if nothing new.

    Args:
        output: Lines.
        packages: Number of packages that are installed.
    """
    found, name = 0, ""
    for line in output:
        shown = ""
        if collecting := _COLLECTING.match(line):
            found, name = found + 1, collecting[1]
            shown = f"{found} of {max(found, packages)} packages: {name}"
        elif downloading := _DOWNLOADING.match(line):
            shown = f"{found} of {max(found, packages)} packages: downloading {name} ({downloading['size']})"
        elif unpacking := _UNPACKING.match(line):
            count = len(unpacking[1].split(","))
            shown = f"unpacking {count} {'package' if count == 1 else 'packages'}"
        yield line, shown


def main(log: TextIO, packages: int) -> None:
    """Copy stdin to the log, and show its stages on stdout."""
    rewrites, last = sys.stdout.isatty(), time.monotonic()
    for line, shown in stages(sys.stdin, packages):
        log.write(line)
        log.flush()
        if shown and rewrites:
            print(f"\r\x1b[K  {shown}", end="", flush=True)
        elif shown and (time.monotonic() - last >= EVERY or shown.startswith("unpacking")):
            print(f"{time.strftime('%H:%M:%S')}   {shown}", flush=True)
            last = time.monotonic()
    if rewrites:
        print("\r\x1b[K", end="", flush=True)


if __name__ == "__main__":
    with Path(sys.argv[1]).open("a", encoding="utf-8") as log:
        main(log, int(sys.argv[2]))
