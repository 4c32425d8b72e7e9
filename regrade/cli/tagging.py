"""Tagging runs in MLflow from commands that go on without it."""

import os
import sys
from collections.abc import Callable

from regrade.cli.terminal import visible
from regrade.errors import TrackingError
from regrade.tracking.connection import default_tracking_uri, is_there


def tag_runs(tracking_uri: str | None, answers: str, tag: Callable[[str], int]) -> int | None:
    """Tag runs where there is an MLflow; a failure is told and changes nothing.

    Args:
        tracking_uri: MLflow that was named, which has to have the runs.
        answers: Address of the answer repository, beside which MLflow may lie.
        tag: What tags, and returns how many runs it found.

    Returns:
        Runs that were tagged; None where there is no MLflow.
    """
    uri = tracking_uri or default_tracking_uri(answers)
    named = tracking_uri is not None or "MLFLOW_TRACKING_URI" in os.environ
    if not named and not is_there(uri):
        return None
    try:
        found = tag(uri)
    except TrackingError as error:
        sys.stderr.write(f"regrade: not tagged: {visible(str(error))}\n")
        return None
    if not found and named:
        sys.stderr.write(
            "regrade: not tagged: MLflow has no runs of these answers; `regrade score` makes them\n"
        )
    return found
