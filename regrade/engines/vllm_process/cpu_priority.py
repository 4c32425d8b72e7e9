"""Lower the engine's CPU priority if servers share its cores (REGRADE_CPU_NICE).

vLLM's CPU backend never sleeps: its processes wait for each other in loops of `sched_yield`. On two shared cores, a
Prefect server then needs 8 to 50 s for a response that takes 2 ms; with a nice value of 10 for the engine it takes 2 ms
again. The engine loses up to a tenth of its speed (docs/performance.md), so this is optional; prefect.yaml sets it for
the flow runs of workers. Engines on a GPU keep their priority, because the CPU prepares the GPU's work.
"""

import os
from contextlib import suppress
from pathlib import Path

from regrade.errors import SettingsError

VARIABLE = "REGRADE_CPU_NICE"
AUTOGROUP = Path("/proc/self/autogroup")


def lower_priority() -> None:
    """Lower the priority of this process, its session and its future children to `REGRADE_CPU_NICE`, if set.

    Linux compares the priorities of sessions before those of their processes (`man 7 sched`, autogroups), so both are
    set. The engine has a session of its own: see regrade/processes/supervised.py.

    Raises:
        SettingsError: If the variable is not a whole number from 0 to 19.
    """
    nice = os.environ.get(VARIABLE)
    if not nice:
        return
    if not nice.isdecimal() or int(nice) > 19:
        raise SettingsError(f"{VARIABLE}={nice} should be a nice value from 0 to 19.")
    os.nice(int(nice))
    with suppress(OSError):  # a kernel without autogroups, or a container that hides them
        AUTOGROUP.write_text(nice)
