"""Environment variables and the Python of an engine's worker."""

import getpass
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import regrade
from regrade.errors import SettingsError
from regrade.processes.environment import LIBRARY_DEFAULTS
from regrade.project_folder import install_command, is_checkout

ENGINE_PYTHON = "REGRADE_ENGINE_PYTHON"
"""Environment variable with the Python of another environment that has vLLM."""

_DEFAULTS = {
    **LIBRARY_DEFAULTS,
    "PYTHONUNBUFFERED": "1",
    "VLLM_LOGGING_LEVEL": "INFO",
    # The worker has threads, and a fork would take the channel along.
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
}


def engine_python() -> str:
    """Return the Python that vLLM runs under.

    Raises:
        SettingsError: If `REGRADE_ENGINE_PYTHON` is not a program.
    """
    asked = os.environ.get(ENGINE_PYTHON) or sys.executable
    found = shutil.which(asked)
    if found is None:
        raise SettingsError(f"{ENGINE_PYTHON} is '{asked}', which is not a program.")
    return found


def install_vllm_command() -> str:
    """Command that installs vLLM's build for this machine."""
    if shutil.which("nvidia-smi") is None:
        # vLLM's CPU build pins a build of torch that is on this index only.
        index = "" if is_checkout() else " --extra-index-url https://download.pytorch.org/whl/cpu"
        return install_command("vllm", "install") + index
    return install_command("cuda", "install-cuda")


def worker_environment(current: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """Return the variables of the supervisor and the worker; what the user set stays.

    Args:
        current: The variables of this process.
        scratch: Folder for sockets and other files that vLLM leaves behind.
    """
    root = Path(regrade.__file__).parents[1]
    paths = [current["PYTHONPATH"]] if current.get("PYTHONPATH") else []
    if root.name not in ("site-packages", "dist-packages"):  # would shadow the worker's packages
        paths.insert(0, str(root))
    inductor = Path(tempfile.gettempdir()) / f"torchinductor_{getpass.getuser()}"
    return {
        **_DEFAULTS,
        "TORCHINDUCTOR_CACHE_DIR": str(inductor),  # lasts longer than the scratch folder
        "VLLM_RPC_BASE_PATH": str(scratch),
        **current,
        "TMPDIR": str(scratch),
        "PYTHONPATH": os.pathsep.join(paths),
    }
