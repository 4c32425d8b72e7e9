"""What was scored, in MLflow: one run per model, and beneath it one run per scoring of an answer set.

The only package that names mlflow. `track` is idempotent: runs are found again by their tags and brought up to date.
"""

from regrade.tracking.connection import default_tracking_uri
from regrade.tracking.scoring import Scoring
from regrade.tracking.track import TrackedRuns, track

__all__ = ["Scoring", "TrackedRuns", "default_tracking_uri", "track"]
