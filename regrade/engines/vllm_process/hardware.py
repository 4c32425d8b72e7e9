"""The hardware and the vLLM that an engine of this machine will run on, found without importing vLLM."""

import re

from regrade.engines.vllm_process.build import gpus_here, runs_on_cpu, versions
from regrade.processes.limited import available_cores
from regrade.settings import StrictModel
from regrade.text.text import counted


class Hardware(StrictModel):
    """Devices of a machine."""

    device: str
    """Name of the GPUs as the driver reports it, or `cpu`."""
    count: int
    """GPUs that the engine may use; on a CPU, cores."""

    @property
    def gpus(self) -> int:
        """GPUs that the engine may use; 0 on a CPU."""
        return 0 if self.device == "cpu" else self.count

    def __str__(self) -> str:
        unit = "core" if self.device == "cpu" else "GPU"
        return f"{self.device} with {counted(self.count, unit)}"


def hardware() -> Hardware | None:
    """Return the devices of this machine; None if they are not known, or differ from each other."""
    if runs_on_cpu():
        return Hardware(device="cpu", count=available_cores())
    names = gpus_here()
    if not names or len(set(names)) > 1:
        return None
    return Hardware(device=names[0], count=len(names))


def vllm_version() -> str | None:
    """Return the installed version of vLLM without its last part, such as `0.32`; None if it is not installed."""
    match = re.match(r"\d+\.\d+", max(versions(), default=""))
    return match[0] if match else None
