"""Settings of jobs, errors, and the names of what is installed.

The models are in `regrade.settings.settings`, which imports pydantic. It is imported when a model is first used,
because errors and the registry are needed without it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regrade.settings.settings import *  # noqa: F403


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of the models
    """Return a model of `regrade.settings.settings`; Python also calls this for modules of this package."""
    if not name[:1].isupper():
        raise AttributeError(f"module 'regrade.settings' has no attribute '{name}'")
    return getattr(import_module("regrade.settings.settings"), name)
