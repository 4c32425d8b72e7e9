"""Find unevaluated checkpoints, and the steps of saves, of an earlier process in a training's output folder."""

import json
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from regrade.checkpoints.training.checkpoints import kept_folder, queued
from regrade.settings.files import atomic_write

logger = logging.getLogger("regrade.hooks")
LOGS = "regrade-logs"
"""Name of the folder for logs of evaluations, in a training's output folder."""
LAST = "trainer_state.json"
"""Name of the file with a training's state in a checkpoint; the Trainer writes it last."""
_SAVES = "saves.json"
_STEPS = TypeAdapter(list[int])


class SavedState(BaseModel):
    """The part of a `trainer_state.json` that is read here."""

    global_step: int
    epoch: float | None = None
    log_history: list[dict[str, Any]] = []


def saves_until(output: Path, step: int) -> list[int]:
    """Return the steps up to `step` at which this training was saved; empty if it begins at step 0."""
    path = output / LOGS / _SAVES
    if step == 0 or not path.exists():
        return []
    try:
        steps = _STEPS.validate_json(path.read_bytes())
    except ValidationError as error:
        logger.warning("'%s' cannot be read, so `every` counts from here: %s", path, error)
        return []
    return [saved for saved in steps if saved <= step]


def write_saves(output: Path, steps: Sequence[int]) -> None:
    """Store the steps at which this training was saved, for the process that resumes it."""
    path = output / LOGS / _SAVES
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(_STEPS.dump_json(list(steps)))


def left_over(
    output: Path, step: int, log_history: Sequence[dict[str, Any]]
) -> tuple[list[Path], list[Path]]:
    """Return the checkpoints in the queue that an earlier process of this training did not evaluate.

    A checkpoint belongs to the training if the training resumed at its step or later, and has logged what the checkpoint
    had logged.

    Args:
        output: The training's output folder.
        step: Step at which the training begins.
        log_history: Log entries up to that step.

    Returns:
        Checkpoints of this training, oldest first; those of other trainings.
    """
    ours, others = [], []
    for folder in queued(kept_folder(output)):
        state = state_of(folder)
        belongs = state is not None and state.global_step <= step
        if state is not None and belongs and _starts_with(log_history, state):
            ours.append(folder)
        else:
            others.append(folder)
    return ours, others


def state_of(folder: Path) -> SavedState | None:
    """Return the state in a checkpoint; None if the folder is no checkpoint."""
    try:
        state = SavedState.model_validate_json((folder / LAST).read_bytes())
    except (OSError, ValidationError):
        return None
    return state if re.fullmatch(rf"checkpoint-{state.global_step}", folder.name) else None


def _starts_with(log_history: Sequence[dict[str, Any]], state: SavedState) -> bool:
    begin = list(log_history[: len(state.log_history)])
    return json.dumps(begin) == json.dumps(state.log_history)  # as texts, because NaN != NaN
