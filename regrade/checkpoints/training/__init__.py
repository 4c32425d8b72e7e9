"""Evaluate checkpoints while a model is trained: `from regrade.checkpoints.training import EvaluateCheckpoints`.

Importing that class imports transformers, which a training script has imported already.
"""

from typing import TYPE_CHECKING, Any

from regrade.settings.errors import NotInstalledError
from regrade.settings.project_folder import install_command

if TYPE_CHECKING:
    from regrade.checkpoints.training.callback import EvaluateCheckpoints

__all__ = ["EvaluateCheckpoints"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - modules of this package ask here too
    """Import the callback when it is first used: its base class takes seconds."""
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    try:
        from regrade.checkpoints.training.callback import EvaluateCheckpoints  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise
        raise NotInstalledError("transformers", install_command("hooks", "install")) from error
    return EvaluateCheckpoints
