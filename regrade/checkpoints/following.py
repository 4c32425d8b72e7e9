"""Models that come while others are evaluated (`regrade evaluate --follow`): the queue, and what earlier runs did of it."""

import hashlib
import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from glob import escape, glob
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from regrade.checkpoints import ENDED
from regrade.checkpoints.found import Found, in_folder, on_hub
from regrade.models.patterns import matching
from regrade.settings import StrictModel
from regrade.settings.errors import HubError
from regrade.settings.files import at_home, cache_folder, keep
from regrade.settings.model_pattern import has_models, is_pattern, names_revision

logger = logging.getLogger("regrade.watch")
SETTLE = 5.0
"""Seconds without a change after which a complete folder counts as written."""
POLL = 1.0
"""Seconds between two looks at folders."""
HUB_POLL = 30.0
"""Seconds between two looks at the Hub."""
ATTEMPTS = 3
"""Times that a revision is begun whose runs were killed."""


class Note(StrictModel):
    """Record of the runs on this machine that took a revision."""

    model: str
    revision: str
    begun: int = 0
    ended: bool = False
    """It was evaluated, or failed."""


class Notes:
    """Revisions that runs with the same parameters began and ended: a file for each in the cache folder of the machine."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self._parameters = json.dumps(parameters, sort_keys=True)
        self.elsewhere: set[str] = set()
        """Models that another run generates right now, which may be killed."""

    def leaves_out(self, found: Found) -> bool:
        """Return True for a revision that an earlier run evaluated, or at which it failed or was killed too often."""
        note = self._read(found)
        return note.ended or note.begun >= ATTEMPTS

    @contextmanager
    def taking(self, found: Found) -> Iterator[None]:
        """Note that a revision is begun, and after the block that it was evaluated, or failed."""
        begun = self._read(found).begun
        self._note(found, begun=begun + 1)
        yield
        elsewhere = found.model in self.elsewhere
        self._note(found, **{"begun": begun} if elsewhere else {"ended": True})

    def _path(self, found: Found) -> Path:
        content = "\0".join((found.model, found.revision, self._parameters))
        return cache_folder() / "followed" / f"{hashlib.sha256(content.encode()).hexdigest()}.json"

    def _read(self, found: Found) -> Note:
        # A damaged one costs a look at the stored answers.
        with suppress(FileNotFoundError, ValidationError):
            return Note.model_validate_json(self._path(found).read_bytes())
        return Note(model=found.model, revision=found.revision)

    def _note(self, found: Found, **changes: int) -> None:
        note = self._read(found).model_copy(update=changes)
        keep(self._path(found), note.model_dump_json().encode())


class Following:
    """The models that names stand for, each when it is complete, in the order of the names and steps, once.

    Iterating ends when none came for `quiet` seconds, and none is being written; or when all are done and a file
    `training-ended` lies beside the folders.
    """

    def __init__(self, names: Sequence[str], quiet: float, notes: Notes | None = None) -> None:
        self._names, self._quiet, self._notes = names, quiet, notes
        self._seen: set[str] = set()
        self._in_folders = all(map(_is_in_folder, names))
        self.poll = POLL if self._in_folders else HUB_POLL
        """Seconds between two looks."""
        self.left_out = 0
        """Revisions that the notes left out."""
        self.incomplete: list[str] = []
        """Models that were not complete at the end."""

    def __iter__(self) -> Iterator[Found]:
        """Yield each model.

        Raises:
            ModelError: If a model or branch on the Hub does not exist, or the token has no access.
            HubError: If the Hub fails for that long.
            RefusedParameterError: If the worker that started this run shares none of the folders with it.
        """
        for name in self._names:  # a wrong one is told before the first model is loaded
            if not _is_in_folder(name) and not has_models(name):
                with suppress(HubError):
                    on_hub(name)
        last = time.monotonic()
        while True:
            has_ended = self._has_ended()
            waiting: list[Found] = []
            found: Found | None = None
            problem: HubError | None = None
            # A checkpoint that was removed may come again, as that of a training that went back.
            self._seen -= {n for n in self._seen if not names_revision(n) and not Path(n).exists()}
            try:
                found = self._next(self._seen, waiting)
            except HubError as error:
                problem = error
            is_written = any(model.age < SETTLE for model in waiting)
            if found is not None:
                with nullcontext() if self._notes is None else self._notes.taking(found):
                    yield found
            elif not is_written and (has_ended or time.monotonic() - last >= self._quiet):
                break
            else:
                if problem is not None:
                    logger.warning("%s Looking again in %.0f s.", problem, self.poll)
                time.sleep(self.poll)
            if found is not None or is_written:
                last = time.monotonic()
        for model in waiting:
            logger.warning("%s is not evaluated: %s", model.model, model.waits_for)
            self.incomplete.append(model.model)
        if problem is not None:
            raise problem

    def _has_ended(self) -> bool:
        """Return True if all models are in folders, and `training-ended` lies beside each."""
        return self._in_folders and all(
            len(glob(f"{parent}/{ENDED}")) == len(glob(parent)) > 0  # noqa: PTH207 - whole paths
            for parent in map(_parent, self._names)
        )

    def leave(self, found: Found) -> None:
        """Leave a model to another run, without a note that it was evaluated, or failed."""
        if self._notes is not None:
            self._notes.elsewhere.add(found.model)

    def peek(self) -> Found | None:
        """Return the model that comes next if it is there; None, too, if the Hub does not answer."""
        try:
            return self._next({*self._seen}, [])
        except HubError:
            return None

    def _next(self, seen: set[str], waiting: list[Found]) -> Found | None:
        """Return the next complete model and add it to `seen`; None if there is none. Adds incomplete ones to `waiting`."""
        for pattern in self._names:
            for name in matching(pattern):
                if name in seen:
                    continue
                # A folder may be deleted between the two looks.
                found = in_folder(at_home(name), SETTLE) if _is_in_folder(pattern) else on_hub(name)
                if found.waits_for is not None:
                    waiting.append(found)
                elif found.model not in seen:
                    seen.add(found.model)
                    if name != pattern and not has_models(pattern):
                        seen.add(name)
                    if self._notes is None or not self._notes.leaves_out(found):
                        return found
                    self.left_out += seen is self._seen
        return None


def _is_in_folder(name: str) -> bool:
    return (is_pattern(name) and not names_revision(name)) or at_home(name).is_dir()


def _parent(name: str) -> str:
    """Return the pattern of the folder in which the folders of a name are."""
    parent = str(at_home(name).parent)
    return parent if is_pattern(name) else escape(parent)
