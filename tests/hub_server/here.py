"""Let this process ask a test Hub, though its libraries read the Hub's address when they are imported."""

from pathlib import Path

import datasets.config
import pytest
from huggingface_hub import HfFileSystem, constants


def use_hub(
    patch: pytest.MonkeyPatch,
    endpoint: str,
    *,
    home: Path | None = None,
    token: str = "",
    offline: bool = False,
) -> None:
    """Ask the Hub at an address until the patch is undone.

    Args:
        patch: Keeps what was set before.
        endpoint: Address of the Hub.
        home: Folder of the clients' caches; None: that of this process.
        token: The token that the clients send; none if empty.
        offline: The clients send no request.
    """
    HfFileSystem.clear_instance_cache()  # each keeps its address
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, endpoint)
    patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    patch.setattr(constants, "ENDPOINT", endpoint)
    patch.setattr(datasets.config, "HF_ENDPOINT", endpoint)
    patch.setenv("HF_ENDPOINT", endpoint)
    patch.setenv("HF_TOKEN", token)
    patch.setattr(constants, "HF_HUB_OFFLINE", offline)
    patch.setattr(datasets.config, "HF_HUB_OFFLINE", offline)
    if home is not None:
        patch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", home / "datasets")
