"""Track scorings in MLflow: a parent run for each model, with a child run for each scoring of an answer set.

The only package that imports mlflow. `track` is idempotent: it finds existing runs by their tags and updates them.
"""

from regrade.tracking.connection import default_tracking_uri
from regrade.tracking.scoring import Scoring
from regrade.tracking.track import TrackedRuns, track

__all__ = ["Scoring", "TrackedRuns", "default_tracking_uri", "track"]
