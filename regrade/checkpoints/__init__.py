"""Checkpoints of a training, evaluated by a callback or by a watching flow."""

KEPT = "regrade-kept"
"""Name of the folder in a training's folder for hard links to checkpoints."""
ENDED = "training-ended"
"""Name of an empty file beside checkpoints: no further ones come."""
