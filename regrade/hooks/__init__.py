"""Evaluate checkpoints while a model is trained: `from regrade.hooks import EvaluateCheckpoints`.

Importing this module imports transformers, which a training script has imported already.
"""

from regrade.errors import NotInstalledError
from regrade.project_folder import install_command

try:
    from regrade.hooks.callback import EvaluateCheckpoints
except ModuleNotFoundError as error:
    if error.name != "transformers":
        raise
    raise NotInstalledError("transformers", install_command("hooks", "install")) from error

__all__ = ["EvaluateCheckpoints"]
