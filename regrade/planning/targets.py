"""The GPUs to plan for: those that are named, or those of this machine."""

from regrade.engines.vllm_process.planner import Machine
from regrade.errors import SettingsError
from regrade.planning.gpus import gpu_key, gpu_memory, parse_memory
from regrade.planning.plan import Target
from regrade.planning.request import PlanRequest

UTILIZATION = 0.92
"""vLLM's default of `gpu_memory_utilization`."""


def given_target(request: PlanRequest) -> Target | None:
    """Return the GPUs that the request names; None if it names none.

    Raises:
        SettingsError: If the name or the memory is not known.
    """
    if request.gpu is None and request.gpu_memory is None:
        return None
    if request.gpu is not None:
        memory, name = gpu_memory(request.gpu), gpu_key(request.gpu)
    else:
        memory, name = parse_memory(request.gpu_memory or ""), None
    return _gpus(request, name, request.gpus or 1, memory)


def this_machine(request: PlanRequest, machine: Machine | None) -> Target:
    """Return this machine's GPUs, or its CPU if none are asked for.

    Raises:
        SettingsError: If the machine is not known, or has no or fewer GPUs.
    """
    if machine is None:
        raise SettingsError(
            "Without vLLM the GPUs of this machine are not known. Name them: `--gpu h100`, or `--gpu-memory 80GiB`."
        )
    if machine.is_cpu or machine.memory is None:
        if request.gpus is not None:
            raise SettingsError(
                f"`--gpus {request.gpus}`: this machine has no GPU. Name the kind: `--gpu h100`, or `--gpu-memory 80GiB`."
            )
        return Target(gpu=machine.device, gpus=1, memory=None, usable=None)
    if request.gpus is not None and request.gpus > machine.count:
        raise SettingsError(
            f"`--gpus {request.gpus}`: this machine has {machine.count}. To plan for another one, name its GPUs: `--gpu h100`, "
            "or `--gpu-memory 80GiB`."
        )
    return _gpus(request, machine.device, request.gpus or machine.count, machine.memory)


def _gpus(request: PlanRequest, name: str | None, gpus: int, memory: int) -> Target:
    share = request.engine.gpu_memory_utilization or UTILIZATION
    return Target(gpu=name, gpus=gpus, memory=memory, usable=int(memory * share))
