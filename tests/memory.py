"""Memory that a block takes, as the kernel counts it: its peak is counted anew, whatever the process had taken before."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PROCESS = Path("/proc/self")


@contextmanager
def taking_at_most(limit: int) -> Iterator[None]:
    """Check that the block takes less than so many bytes beyond what this process had."""
    (_PROCESS / "clear_refs").write_text("5")  # proc(5): resets the peak
    before = _bytes("VmRSS")
    yield
    taken = _bytes("VmHWM") - before
    assert taken < limit, f"{taken >> 20} MiB"


def _bytes(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", (_PROCESS / "status").read_text())
    assert found is not None
    return int(found[1]) * 1024
