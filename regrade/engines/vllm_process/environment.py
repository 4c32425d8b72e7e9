"""Environment variables and Python interpreter of an engine's worker."""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from regrade.processes.environment import LIBRARY_DEFAULTS
from regrade.processes.slots import machine_folder
from regrade.settings.errors import SettingsError
from regrade.settings.project_folder import PACKAGE, install_command, is_checkout

ENGINE_PYTHON = "REGRADE_ENGINE_PYTHON"
"""Environment variable naming the Python interpreter of another environment, with vLLM installed."""

CHECK_FIT = "REGRADE_CHECK_FIT"
"""Environment variable that switches off, with `off`, that a model is refused which cannot fit."""

DEFAULTS = {
    **LIBRARY_DEFAULTS,
    # Its warnings about retried downloads have signed addresses, which do not belong in a log.
    "HF_HUB_VERBOSITY": "error",
    "PYTHONUNBUFFERED": "1",
    # Torch keeps them in the temporary folder, which is another one for each engine: they took it 6 s before the first log-probability on
    # a CPU, although what is compiled with them is in a cache.
    "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
    "VLLM_LOGGING_LEVEL": "INFO",
    # The worker has threads, and a forked process would inherit the channel.
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
}
"""Variables of an engine that are not set."""

PASSED_ON = "REGRADE_ENGINE_VARIABLES"
"""Environment variable with the names of further variables for the engine, separated by commas."""

# An allow list: a model may bring its own code (`trust_remote_code`), and nobody can list all the credentials that the
# environment of a team's worker or CI job holds. What engines need is known: it has the prefixes of the libraries and drivers
# below. A variable that is missing here fails visibly, a credential that is missing in a deny list does not.
_NAMES = frozenset(
    {
        *("HOME", "HOSTNAME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TEMP", "TERM"),
        *("TMP", "TMPDIR", "TZ", "USER"),
        # compiled kernels
        *("CC", "CFLAGS", "CPATH", "CXX", "CXXFLAGS", "LIBRARY_PATH", "MAX_JOBS"),
        *("DO_NOT_TRACK", "NO_COLOR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE"),
        *("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
        *("MASTER_ADDR", "MASTER_PORT"),
    }
)
_PREFIXES = (
    *("LC_", "LD_", "PYTHON", "SSL_CERT_", "XDG_", "REGRADE_"),
    *("VLLM_", "TORCH", "PYTORCH_", "TRITON_"),
    *("FLASHINFER_", "FLASH_ATTN", "DG_", "CUTE_", "CUTLASS_"),
    *("HF_", "HUGGINGFACE_", "TRANSFORMERS_", "TOKENIZERS_", "SAFETENSORS_"),
    *("CUDA", "CUBLAS", "CUDNN_", "NVIDIA_", "NVTE_", "NVSHMEM_", "NCCL_", "GLOO_", "UCX_", "RAY_"),
    *("OMP_", "GOMP_", "KMP_", "MKL_", "ONEDNN_", "DNNL_", "OPENBLAS_", "NUMEXPR_", "MALLOC_"),
    *("HIP_", "HSA_", "ROCM_", "ROCR_", "RCCL_", "AITER_", "GPU_", "AMD_"),
    *("ONEAPI_", "SYCL_", "ZE_", "CCL_", "FI_", "I_MPI_", "HABANA_", "TPU_", "NEURON_", "ASCEND_"),
)
_SECRET = re.compile(r"(^|_)(TOKEN|TOKENS|KEY|KEYS|SECRET|SECRETS|PASSWORD|CREDENTIALS?|AUTH)$")
"""Names of secrets, also among those with the prefixes above."""
_HUB_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")


def checks_fit() -> bool:
    """Return False if `REGRADE_CHECK_FIT` switches the check off that a model fits.

    Raises:
        SettingsError: If it is neither `on` nor `off`.
    """
    value = os.environ.get(CHECK_FIT) or "on"
    if value not in ("on", "off"):
        raise SettingsError(f"{CHECK_FIT}={value} should be `on` or `off`.")
    return value == "on"


def number_in(variable: str, least: int, most: float, expected: str) -> int | None:
    """Return the whole number in an environment variable; None if it is not set.

    Raises:
        SettingsError: If it is no whole number from `least` to `most`; it says what is `expected`.
    """
    text = os.environ.get(variable)
    if not text:
        return None
    if not text.isdecimal() or not least <= int(text) <= most:
        raise SettingsError(f"{variable}={text} should be {expected}.")
    return int(text)


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


def worker_environment(
    current: Mapping[str, str], scratch: Path, *, hub_token: bool = False
) -> dict[str, str]:
    """Return the variables of the supervisor and the worker; variables of the user override defaults.

    Only variables that engines need are passed on, and no credentials of Prefect, MLflow, databases, clouds or CI.

    Args:
        current: The variables of this process.
        scratch: Folder for sockets and temporary files of vLLM.
        hub_token: Pass on the token of the Hub, from which vLLM itself loads private and gated models.
    """
    root = PACKAGE.parent
    paths = [current["PYTHONPATH"]] if current.get("PYTHONPATH") else []
    if root.name not in ("site-packages", "dist-packages"):  # would hide the worker's packages
        paths.insert(0, str(root))
    return {
        **DEFAULTS,
        # Ray finds its cluster in the temporary folder, which is another one below.
        "RAY_TMPDIR": tempfile.gettempdir(),
        # A cache, which survives the scratch folder. Torch's own folder can be made by another user, and holds code.
        "TORCHINDUCTOR_CACHE_DIR": str(machine_folder("torchinductor")),
        "VLLM_RPC_BASE_PATH": str(scratch),
        **_needed(current, hub_token=hub_token),
        "TMPDIR": str(scratch),
        "PYTHONPATH": os.pathsep.join(paths),
    }


def _needed(current: Mapping[str, str], *, hub_token: bool) -> dict[str, str]:
    named = {name.strip() for name in current.get(PASSED_ON, "").split(",")}
    if hub_token:
        named.update(_HUB_TOKENS)
    return {name: value for name, value in current.items() if name in named or _is_needed(name)}


def _is_needed(name: str) -> bool:
    upper = name.upper()  # `http_proxy` is as common as HTTP_PROXY
    return (upper in _NAMES or upper.startswith(_PREFIXES)) and not _SECRET.search(upper)
