"""Models that come while others are evaluated: checkpoints of a training, revisions of a repository (`regrade evaluate --follow`)."""

import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from regrade.checkpoints import ENDED
from regrade.checkpoints.watching.folders import in_folder
from regrade.checkpoints.watching.found import Found
from regrade.checkpoints.watching.hub import on_hub
from regrade.models.patterns import matching
from regrade.settings.errors import HubError
from regrade.settings.model_pattern import names_revision

logger = logging.getLogger("regrade.watch")
SETTLE = 5.0
"""Seconds without a change after which a complete folder counts as written."""
POLL = 1.0
"""Seconds between two looks at folders."""
HUB_POLL = 30.0
"""Seconds between two looks at the Hub."""


def newest(name: str, settle: float) -> Found:
    """Return the revision of a model in a folder, or the newest one on the Hub.

    Raises:
        ModelError: If a model or branch on the Hub does not exist, or the token has no access.
        HubError: If the Hub cannot be reached or fails.
    """
    folder = Path(name).expanduser()
    return in_folder(folder, settle=settle) if folder.is_dir() else on_hub(name)


def as_they_come(names: Sequence[str], quiet: float) -> Iterator[Found]:
    """Yield each model that the names stand for when it is complete, in the order of the names and steps, once.

    Ends when none came for `quiet` seconds, and none is being written; or when all are done and a file `training-ended`
    lies beside the folders.

    Raises:
        ModelError: If a model or branch on the Hub does not exist, or the token has no access.
        HubError: If the Hub fails for that long.
        RefusedParameterError: If the worker that started this run shares none of the folders with it.
    """
    seen: set[str] = set()
    folders = [Path(name).expanduser().parent for name in names if not names_revision(name)]
    poll = POLL if len(folders) == len(names) else HUB_POLL
    last = time.monotonic()
    while True:
        has_ended = bool(folders) and all((folder / ENDED).exists() for folder in folders)
        waiting: list[Found] = []
        problem: HubError | None = None
        found: Found | None = None
        try:
            found = _next(names, seen, waiting)
        except HubError as error:
            problem = error
        if found is not None:
            yield found
            last = time.monotonic()
            continue
        if any(model.age < SETTLE for model in waiting):
            last = time.monotonic()
        elif has_ended or time.monotonic() - last >= quiet:
            for model in waiting:
                logger.warning("%s is not evaluated: %s", model.short, model.waits_for)
            if problem is not None:
                raise problem
            return
        if problem is not None:
            logger.warning("%s Looking again in %.0f s.", problem, poll)
        time.sleep(poll)


def _next(names: Sequence[str], seen: set[str], waiting: list[Found]) -> Found | None:
    """Return the next complete model and note it as seen; None if there is none. Adds incomplete ones to `waiting`."""
    # A checkpoint that was removed may come again, as that of a training that went back.
    seen -= {name for name in seen if not names_revision(name) and not Path(name).exists()}
    for pattern in names:
        for name in matching(pattern):
            if name in seen:
                continue
            found = newest(name, SETTLE)
            if found.waits_for is not None:
                waiting.append(found)
            elif found.model not in seen:
                seen |= {found.model} | ({name} - {pattern})
                return found
    return None
