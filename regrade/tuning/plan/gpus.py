"""Memory of GPUs by name, and sizes of memory in texts."""

import re
from difflib import get_close_matches

from regrade.settings.errors import SettingsError
from regrade.stats.speed import GIB, MIB

_UNITS = {"mib": MIB, "gib": GIB, "tib": GIB << 10, "mb": 10**6, "gb": 10**9, "tb": 10**12}

MEMORY_MIB = {
    "a10": 23028,
    "a30": 24576,
    "a100-40gb": 40960,
    "a100-80gb": 81920,
    "b200": 183359,
    "b300": 275040,
    "gb200": 189471,
    "gb300": 284208,
    "h100": 81559,
    "h200": 143771,
    "l4": 23034,
    "l40s": 46068,
    "rtx-4090": 24564,
    "rtx-pro-6000": 97887,
    "t4": 15360,
}
"""Memory of a GPU in MiB, as `nvidia-smi` shows it (`memory.total`), which is less than the name of some says.

Sources: https://github.com/modal-labs/modal-client/pull/2797 (A10, A100, H100, L4, L40S, T4), the specifications in NVIDIA's
aiconfigurator-core 0.12 (B300, GB200, GB300, L40S, RTX PRO 6000), and outputs of `nvidia-smi` in public reports of bugs (the others).
CUDA itself keeps some 0.5 GiB of it, which is part of the margin.
"""


def gpu_memory(name: str) -> int:
    """Return the memory of a GPU in bytes.

    Args:
        name: Name in `MEMORY_MIB`; case, spaces, `_` and a leading `nvidia` do not matter.

    Raises:
        SettingsError: If the name is unknown.
    """
    key = gpu_key(name)
    if key not in MEMORY_MIB:
        close = get_close_matches(key, MEMORY_MIB, n=1)
        similar = [known for known in MEMORY_MIB if known.startswith(f"{key}-")] or close
        hint = f" Did you mean {' or '.join(repr(known) for known in similar)}?" if similar else ""
        raise SettingsError(
            f"Unknown GPU '{name}'.{hint} Known: {', '.join(sorted(MEMORY_MIB))}. For another one, give its memory instead, "
            "such as `--gpu-memory 80GiB`."
        )
    return MEMORY_MIB[key] * MIB


def gpu_key(name: str) -> str:
    """Return the form of a GPU's name in which `MEMORY_MIB` has it."""
    key = re.sub(r"[\s_-]+", "-", name.strip().lower())
    return key.removeprefix("nvidia-").removeprefix("geforce-")


def is_device(gpu: str, device: str) -> bool:
    """Return True if a GPU by name and the device of an engine are the same kind.

    Args:
        gpu: Name in `MEMORY_MIB`.
        device: Device as its driver names it, such as `NVIDIA H100 80GB HBM3`.
    """
    words = set(re.split(r"[^a-z0-9]+", device.lower()))
    return set(gpu_key(gpu).split("-")) <= words


def parse_memory(text: str) -> int:
    """Return the bytes of a size such as `80GiB`.

    Raises:
        SettingsError: If it is not a number above 0 with a unit.
    """
    found = re.fullmatch(r"\s*([0-9]{1,15}(?:\.[0-9]+)?)\s*([a-zA-Z]+)\s*", text)
    unit = _UNITS.get(found[2].lower()) if found else None
    size = int(float(found[1]) * unit) if found and unit else 0
    if not size:
        raise SettingsError(
            f"'{text}' is not a size of memory. Give a number with its unit (GiB, MiB, GB or MB), such as 80GiB."
        )
    return size
