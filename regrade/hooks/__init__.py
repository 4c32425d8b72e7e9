"""Evaluate checkpoints while a model is trained: `from regrade.hooks import EvaluateCheckpoints`.

Importing this imports transformers, which whoever trains has imported already.
"""

from regrade.hooks.callback import EvaluateCheckpoints

__all__ = ["EvaluateCheckpoints"]
