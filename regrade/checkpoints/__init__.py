"""Models that come while others are evaluated: checkpoints of a training, in folders or from its callback, and revisions on the Hub."""

KEPT = "regrade-kept"
"""Name of the folder in a training's folder for hard links to checkpoints."""
ENDED = "training-ended"
"""Name of an empty file beside checkpoints: no further ones come."""
