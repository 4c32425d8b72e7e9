"""Models that come while others are evaluated: checkpoints of a training, in folders or from its callback, and revisions on the Hub."""

ENDED = "training-ended"
"""Name of an empty file beside checkpoints: no further ones come."""
