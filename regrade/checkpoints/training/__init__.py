"""Evaluate checkpoints while a model is trained: `from regrade.checkpoints.training import EvaluateCheckpoints`.

Importing this module imports transformers, which a training script has imported already.
"""

from regrade.settings.errors import NotInstalledError
from regrade.settings.project_folder import install_command

try:
    from regrade.checkpoints.training.callback import EvaluateCheckpoints
except ModuleNotFoundError as error:
    if error.name != "transformers":
        raise
    raise NotInstalledError("transformers", install_command("hooks", "install")) from error

__all__ = ["EvaluateCheckpoints"]
