"""Environment variables and Python interpreter of an engine's worker."""

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
"""Environment variable naming the Python interpreter of another environment, with vLLM installed."""

_DEFAULTS = {
    **LIBRARY_DEFAULTS,
    # Its warnings about retried downloads have signed addresses, which do not belong in a log.
    "HF_HUB_VERBOSITY": "error",
    "PYTHONUNBUFFERED": "1",
    "VLLM_LOGGING_LEVEL": "INFO",
    # The worker has threads, and a forked process would inherit the channel.
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
}


def engine_python() -> str:
    """Return the Python interpreter that runs vLLM.

    Raises:
        SettingsError: If `REGRADE_ENGINE_PYTHON` is not an executable.
    """
    name = os.environ.get(ENGINE_PYTHON) or sys.executable
    path = shutil.which(name)
    if path is None:
        raise SettingsError(
            f"{ENGINE_PYTHON} is '{name}', which is not an executable. Set it to a Python interpreter with vLLM, or "
            "unset it."
        )
    return path


def install_vllm_command() -> str:
    """Command that installs vLLM's build for this machine."""
    if shutil.which("nvidia-smi") is None:
        # vLLM's CPU build pins a build of torch that is only on this index.
        index = "" if is_checkout() else " --extra-index-url https://download.pytorch.org/whl/cpu"
        return install_command("vllm", "install") + index
    return install_command("cuda", "install-cuda")


def worker_environment(current: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """Return the variables of the supervisor and the worker; variables of the user override defaults.

    Args:
        current: The variables of this process.
        scratch: Folder for sockets and temporary files of vLLM.
    """
    root = Path(regrade.__file__).parents[1]
    paths = [current["PYTHONPATH"]] if current.get("PYTHONPATH") else []
    if root.name not in ("site-packages", "dist-packages"):  # would hide the worker's packages
        paths.insert(0, str(root))
    inductor = Path(tempfile.gettempdir()) / f"torchinductor_{getpass.getuser()}"
    return {
        **_DEFAULTS,
        "TORCHINDUCTOR_CACHE_DIR": str(inductor),  # a cache, which survives the scratch folder
        "VLLM_RPC_BASE_PATH": str(scratch),
        **current,
        "TMPDIR": str(scratch),
        "PYTHONPATH": os.pathsep.join(paths),
    }
