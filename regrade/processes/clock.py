"""Start of this process."""

import os
import sys
import time
from pathlib import Path

import psutil


def process_began() -> float:
    """Start of this process, in seconds of `time.monotonic`."""
    if sys.platform != "linux":
        return psutil.Process().create_time() - time.time() + time.monotonic()
    # psutil adds the time of the boot, which the kernel tells in whole seconds.
    ticks = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    started = int(ticks) / os.sysconf("SC_CLK_TCK")
    # The clocks are read one right after the other: what passes in between would count as this process's.
    return started - time.clock_gettime(time.CLOCK_BOOTTIME) + time.monotonic()
