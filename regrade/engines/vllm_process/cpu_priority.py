"""On a CPU, an engine beside servers leaves the cores to them.

vLLM's CPU backend never sleeps: its processes wait for each other in loops of `sched_yield`. On two cores a Prefect
server beside it was seen to take 8 to 50 s for an answer of 2 ms; with a nice value of 10 it takes 2 ms. That was seen to cost up to
a tenth of the speed (docs/performance.md), so it is done only where it was asked for: prefect.yaml does for what workers run.
On a GPU the cores are what feeds it, and nothing is changed.
"""

import os
from contextlib import suppress
from pathlib import Path

from regrade.errors import SettingsError

VARIABLE = "REGRADE_CPU_NICE"
AUTOGROUP = Path("/proc/self/autogroup")


def give_way() -> None:
    """Lower the priority of this process, its session and all that it starts from now on, if `REGRADE_CPU_NICE` says so.

    Linux weighs sessions against each other before it looks at the processes in them (`man 7 sched`, autogroups), so
    both have to be told. The session is the engine's own: see regrade/engines/vllm_process/process.py.

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
