"""Lower the engine's CPU priority if servers share its cores (REGRADE_CPU_NICE).

vLLM's CPU backend never sleeps: its processes wait for each other in loops of `sched_yield`. On two shared cores, a
Prefect server then needs 8 to 50 s for a response that takes 2 ms; with a nice value of 10 for the engine it takes 2 ms
again. The engine loses up to a tenth of its speed (docs/performance.md), so this is optional; prefect.yaml sets it for
the flow runs of workers. Engines on a GPU keep their priority, because the CPU prepares the GPU's work.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from regrade.engines.vllm_process.environment import number_in
from regrade.settings.errors import SettingsError

if TYPE_CHECKING:
    from regrade.engines.vllm_process.internals import ModelConfig

VARIABLE = "REGRADE_CPU_NICE"
AUTOGROUP = Path("/proc/self/autogroup")


def lower_priority() -> None:
    """Lower the priority of this process, its session and its future children to `REGRADE_CPU_NICE`, if set.

    Linux compares the priorities of sessions before those of their processes (`man 7 sched`, autogroups), so both are
    set. The engine has a session of its own: see regrade/processes/supervised.py.

    Raises:
        SettingsError: As `nice_value`.
    """
    nice = nice_value()
    if nice is None:
        return
    os.nice(nice)
    with suppress(OSError):  # a kernel without autogroups, or a container that hides them
        AUTOGROUP.write_text(str(nice))


def nice_value() -> int | None:
    """Return the value of `REGRADE_CPU_NICE`; None if it is not set.

    Raises:
        SettingsError: If it is not a whole number from 0 to 19.
    """
    return number_in(VARIABLE, 0, 19, "a nice value from 0 to 19")


# Worker side: models for which vLLM computes wrong answers on a CPU.


def check_rotation(model: "ModelConfig") -> None:
    """Refuse latent attention with plain rotary positions, on a CPU.

    vLLM's models pass queries of shape (tokens, heads, size), which the CPU kernel of vLLM 0.32 reads as one head each.
    Models with scaled positions (YaRN, such as DeepSeek's) use another implementation, which is correct.

    Raises:
        SettingsError: If vLLM would compute wrong answers for the model.
    """
    positions = getattr(model.hf_text_config, "rope_parameters", None) or {}
    if model.use_mla and positions.get("rope_type", "default") == "default":
        raise SettingsError(
            f"vLLM 0.32 computes wrong answers for this model on a CPU: its kernel rotates the queries of "
            f"'{model.hf_text_config.model_type}' wrongly (latent attention without YaRN). Use a GPU."
        )


def check_sight(model: "ModelConfig") -> None:
    """Refuse images for a model in which the tokens of an image see each other in both directions, on a CPU.

    vLLM's attention of GPUs does that (`mm_prefix`). That of vLLM 0.32 on a CPU ignores it, and each token sees only those before it:
    `CPUAttentionBackend` does not support it, and `CpuPlatform.get_attn_backend_cls` takes no other, whichever is asked for.

    Raises:
        SettingsError: If vLLM would compute wrong answers about images.
    """
    if model.is_mm_prefix_lm:
        raise SettingsError(
            f"vLLM 0.32 computes wrong answers about images for this model on a CPU: the parts of an image in "
            f"'{model.hf_config.model_type}' should see each other in both directions, and its kernel lets them look back only. Use a GPU."
        )


# Share the cores between the processes of a model that is split on a CPU.
#
# vLLM gives each process of a split model a NUMA node, and does not start if there are fewer nodes than processes.
# Most machines without a GPU have one node.

CORES_VARIABLE = "VLLM_CPU_OMP_THREADS_BIND"
"""vLLM's environment variable: cores of each process, such as `0,1|2,3`; a value of the user is kept."""
SIMULATED = "VLLM_CPU_SIM_MULTI_NUMA"
"""vLLM's environment variable; unless it is `0`, vLLM shares the cores of one node by its own rule and allows no
other."""


class LogicalCPU(Protocol):
    """A logical CPU as vLLM describes it; several of one physical core are its hardware threads."""

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
        os.environ.setdefault(CORES_VARIABLE, binding(cores, parts * copies))


def one_per_core(cpus: Sequence[LogicalCPU]) -> list[int]:
    """Return the id of one logical CPU of each physical core, the last one as vLLM itself chooses.

    Two hardware threads of a core share its arithmetic units.
    """
    last = {cpu.physical_core: cpu.id for cpu in sorted(cpus, key=lambda cpu: cpu.id)}
    return sorted(last.values())


def binding(cores: Sequence[int], processes: int) -> str:
    """Return the cores of each process in vLLM's form, equally many for each; with too few cores, processes share one."""
    each = max(len(cores) // processes, 1)
    return "|".join(
        ",".join(str(cores[(process * each + n) % len(cores)]) for n in range(each))
        for process in range(processes)
    )
