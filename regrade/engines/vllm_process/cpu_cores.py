"""Share the cores between the processes of a model that is split on a CPU.

vLLM gives each process of a split model a NUMA node, and does not start if there are fewer nodes than processes. Most machines
without a GPU have one node.
"""

import os
from collections.abc import Sequence
from typing import Protocol

VARIABLE = "VLLM_CPU_OMP_THREADS_BIND"
"""vLLM's environment variable: cores of each process, such as `0,1|2,3`; a value of the user is kept."""
SIMULATED = "VLLM_CPU_SIM_MULTI_NUMA"
"""vLLM's environment variable: not `0` if vLLM itself shares the cores of one node; it then allows no other way."""


class LogicalCPU(Protocol):
    """What vLLM knows of a logical CPU; several of one physical core are its hardware threads."""

    id: int
    physical_core: int


def share_cores(parts: int, copies: int, *, nodes: int, cpus: Sequence[LogicalCPU]) -> None:
    """Set vLLM's variable if it would not start by itself.

    Args:
        parts: Processes that a copy of the model is split into.
        copies: Copies of the model.
        nodes: NUMA nodes that this process may use.
        cpus: Logical CPUs that this process may use.
    """
    if parts > max(nodes, 1) and os.environ.get(SIMULATED, "0") == "0":
        cores = one_per_core(cpus)
        if len(cores) < parts * copies:
            cores = sorted(cpu.id for cpu in cpus)
        os.environ.setdefault(VARIABLE, binding(cores, parts * copies))


def one_per_core(cpus: Sequence[LogicalCPU]) -> list[int]:
    """Return the id of one logical CPU of each physical core, the last one as vLLM itself chooses.

    Two hardware threads of a core share its arithmetic units.
    """
    last = {cpu.physical_core: cpu.id for cpu in sorted(cpus, key=lambda cpu: cpu.id)}
    return sorted(last.values())


def binding(cores: Sequence[int], processes: int) -> str:
    """Return the cores of each process in vLLM's form, as many for each; a core serves several if they are too few."""
    each = max(len(cores) // processes, 1)
    return "|".join(
        ",".join(str(cores[(process * each + n) % len(cores)]) for n in range(each))
        for process in range(processes)
    )
