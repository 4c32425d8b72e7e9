"""The hardware and the vLLM that an engine of this machine will run on, found without importing vLLM."""

import os
import re
import shutil
import subprocess

from regrade.engines.vllm_process.build import builds, runs_on_cpu
from regrade.settings import StrictModel

_PATIENCE = 30.0
"""Seconds to wait for `nvidia-smi`."""


class Hardware(StrictModel):
    """Devices of a machine."""

    device: str
    """Name of the GPUs as the driver reports it, or `cpu`."""
    count: int
    """GPUs that the engine may use; on a CPU, cores."""

    def __str__(self) -> str:
        unit = "core" if self.device == "cpu" else "GPU"
        return f"{self.device} with {self.count} {unit}{'s' if self.count != 1 else ''}"


def hardware() -> Hardware | None:
    """Return the devices of this machine; None if they are not known, or differ from each other."""
    if runs_on_cpu():
        return Hardware(device="cpu", count=len(os.sched_getaffinity(0)))
    names = _gpus()
    if not names or len(set(names)) > 1:
        return None
    return Hardware(device=names[0], count=len(names))


def vllm_version() -> str | None:
    """Return the installed version of vLLM without its last part, such as `0.32`; None if it is not installed."""
    versions = sorted({build.partition("==")[2] for build in builds()})
    match = re.match(r"\d+\.\d+", versions[-1]) if versions else None
    return match[0] if match else None


def _gpus() -> list[str]:
    """Return the names of the GPUs that CUDA_VISIBLE_DEVICES allows."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return []
    query = [command, "--query-gpu=index,uuid,name", "--format=csv,noheader"]
    asked = subprocess.run(query, capture_output=True, text=True, check=False, timeout=_PATIENCE)
    rows = [[cell.strip() for cell in line.split(",")] for line in asked.stdout.splitlines()]
    known = [row for row in rows if len(row) == 3]
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return [name for _, _, name in known]
    wanted = [entry.strip() for entry in chosen.split(",") if entry.strip()]
    return [
        name
        for entry in wanted
        for index, uuid, name in known
        if entry == index or (entry.startswith("GPU-") and uuid.startswith(entry))
    ]
