"""Lower the engine's CPU priority if servers share its cores (REGRADE_CPU_NICE).

vLLM's CPU backend never sleeps: its processes wait for each other in loops of `sched_yield`. On two cores a Prefect
server took 8 to 50 s for an answer of 2 ms beside it; with a nice value of 10 it takes 2 ms. It costs up to a tenth of
the speed (docs/performance.md), so it happens on request only: prefect.yaml requests it for flow runs of workers.
On a GPU nothing changes: the cores feed it.
"""

import os
from contextlib import suppress
from pathlib import Path

from regrade.errors import SettingsError

VARIABLE = "REGRADE_CPU_NICE"
AUTOGROUP = Path("/proc/self/autogroup")


def lower_priority() -> None:
    """Lower the priority of this process, its session and its future children to `REGRADE_CPU_NICE`, if set.

    Linux weighs sessions against each other before it looks at the processes in them (`man 7 sched`, autogroups), so
    both are set. The session is the engine's own: see regrade/processes/supervised.py.

    Raises:
        SettingsError: If the variable is not a whole number from 0 to 19.
    """
    given = os.environ.get(VARIABLE)
    if not given:
        return
    if not given.isdecimal() or int(given) > 19:
        raise SettingsError(f"{VARIABLE}={given} should be a nice value from 0 to 19.")
    os.nice(int(given))
    with suppress(OSError):  # a kernel without autogroups, or a container that hides them
        AUTOGROUP.write_text(given)
