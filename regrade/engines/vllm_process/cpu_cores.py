"""Share the cores between the processes of a model that is split on a CPU.

vLLM gives each process of a split model a NUMA node, and does not start if there are fewer nodes than processes. Most machines
without a GPU have one node.
"""

import os
from collections.abc import Sequence
from pathlib import Path

VARIABLE = "VLLM_CPU_OMP_THREADS_BIND"
"""vLLM's environment variable: cores of each process, such as `0,1|2,3`; a value of the user is kept."""
_NODES = Path("/sys/devices/system/node")


def share_cores(parts: int, copies: int) -> None:
    """Set vLLM's variable if it would not start by itself.

    Args:
        parts: Processes that a copy of the model is split into.
        copies: Copies of the model.
    """
    nodes = sum(1 for _ in _NODES.glob("node[0-9]*"))
    if parts > max(nodes, 1):
        cores = sorted(os.sched_getaffinity(0))
        os.environ.setdefault(VARIABLE, binding(cores, parts * copies))


def binding(cores: Sequence[int], processes: int) -> str:
    """Return the cores of each process in vLLM's form, as many for each; a core serves several if they are too few."""
    each = max(len(cores) // processes, 1)
    return "|".join(
        ",".join(str(cores[(process * each + n) % len(cores)]) for n in range(each))
        for process in range(processes)
    )
