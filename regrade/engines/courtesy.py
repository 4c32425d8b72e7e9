"""On a CPU, the engine leaves the cores to whoever else needs them.

vLLM's CPU backend never sleeps: its processes wait for each other in loops of `sched_yield`. On two cores a Prefect
server beside it was seen to take 8 to 50 s for an answer of 2 ms; with a nice value it takes 2 ms, and the engine is as fast.
On a GPU the cores are what feeds it, and nothing is changed.
"""

import os
from contextlib import suppress
from pathlib import Path

NICE = 10
AUTOGROUP = Path("/proc/self/autogroup")


def give_way() -> None:
    """Lower the priority of this process, its session and all that it starts from now on.

    Linux weighs sessions against each other before it looks at the processes in them (`man 7 sched`, autogroups), so
    both have to be told. The session is the engine's own: see regrade/engines/process.py.
    """
    os.nice(NICE)
    with suppress(OSError):  # a kernel without autogroups, or a container that hides them
        AUTOGROUP.write_text(str(NICE))
