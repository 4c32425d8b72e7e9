"""Models that come while others are evaluated (`regrade evaluate --follow`): the queue, and what earlier runs did of it."""

import hashlib
import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from glob import escape, glob
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from regrade.checkpoints import ENDED
from regrade.checkpoints.found import Found, in_folder, on_hub
from regrade.models.patterns import matching
from regrade.settings import StrictModel
from regrade.settings.errors import HubError, ModelError
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
    """Revisions that runs with the same parameters began and ended: a file for each in the cache folder of the machine.

    Without parameters, nothing is noted.
    """

    def __init__(self, parameters: Mapping[str, Any] | None = None) -> None:
        self._parameters = None if parameters is None else json.dumps(parameters, sort_keys=True)

    def leaves_out(self, found: Found) -> bool:
        """Return True for a revision that an earlier run evaluated, or at which it failed or was killed too often."""
        note = self._read(found)
        return note.ended or note.begun >= ATTEMPTS

    def begin(self, found: Found) -> None:
        """Note that a revision is begun."""
        self._note(found, begun=self._read(found).begun + 1)

    def end(self, found: Found, *, elsewhere: bool) -> None:
        """Note that a revision was evaluated, or failed; but for one that another run generates, which may be killed."""
        self._note(found, begun=0, ended=not elsewhere)

    def _path(self, found: Found) -> Path:
        content = "\0".join((found.model, found.revision, str(self._parameters)))
        return cache_folder() / "followed" / f"{hashlib.sha256(content.encode()).hexdigest()}.json"

    def _read(self, found: Found) -> Note:
        # A damaged one costs a look at the stored answers.
        with suppress(FileNotFoundError, ValidationError):
            return Note.model_validate_json(self._path(found).read_bytes())
        return Note(model=found.model, revision=found.revision)

    def _note(self, found: Found, **changes: int) -> None:
        if self._parameters is not None:
            note = self._read(found).model_copy(update=changes)
            keep(self._path(found), note.model_dump_json().encode())


class Following:
    """The models that names stand for, each when it is complete, in the order of the names and steps, once.

    Iterating ends when none came for `quiet` seconds, and none is being written; or when all are done and a file
    `training-ended` lies beside the folders. Revisions that `notes` leave out do not come.
    """

    def __init__(self, names: Sequence[str], quiet: float, notes: Notes | None = None) -> None:
        self._in_folder = {name: _is_in_folder(name) for name in names}
        self._quiet, self._notes = quiet, notes or Notes()
        self._seen: set[str] = set()
        self.poll = POLL if all(self._in_folder.values()) else HUB_POLL
        """Seconds between two looks."""
        self.left_out = 0
        """Revisions that the notes left out."""
        self.incomplete: dict[str, str] = {}
        """The missing part of each model that was not complete at the end."""

    def __iter__(self) -> Iterator[Found]:
        """Yield each model.

        Raises:
            ModelError: If a model or branch on the Hub that is named does not exist, or the token has no access.
            HubError: If the Hub fails for that long.
            RefusedParameterError: If the worker that started this run shares none of the folders with it.
        """
        # A wrong one is told before the first model is loaded.
        for name, is_in_folder in self._in_folder.items():
            if not is_in_folder and not has_models(name):
                with suppress(HubError):
                    on_hub(name)
        last = time.monotonic()
        while True:
            has_ended = self._has_ended()
            waiting: list[Found] = []
            problems: list[HubError] = []
            # A checkpoint that was removed may come again, as that of a training that went back.
            self._seen -= {n for n in self._seen if not names_revision(n) and not Path(n).exists()}
            found = self._next(self._seen, waiting, problems)
            is_written = any(model.age < SETTLE for model in waiting)
            if found is not None:
                self._notes.begin(found)
                yield found
            elif not is_written and (has_ended or time.monotonic() - last >= self._quiet):
                break
            else:
                for problem in problems:
                    logger.warning("%s Looking again in %.0f s.", problem, self.poll)
                time.sleep(self.poll)
            if found is not None or is_written:
                last = time.monotonic()
        for model in waiting:
            logger.warning("%s is not evaluated: %s", model.model, model.waits_for)
            self.incomplete[model.model] = str(model.waits_for)
        if problems:
            raise problems[0]

    def _has_ended(self) -> bool:
        """Return True if all models are in folders, and `training-ended` lies beside each."""
        return all(self._in_folder.values()) and all(
            len(glob(f"{parent}/{ENDED}")) == len(glob(parent)) > 0  # noqa: PTH207 - whole paths
            for parent in map(_parent, self._in_folder)
        )

    def peek(self) -> Found | None:
        """Return the model that comes next if it is there; None, too, if the Hub does not answer."""
        return self._next({*self._seen}, [], [])

    def _next(self, seen: set[str], waiting: list[Found], problems: list[HubError]) -> Found | None:
        """Return the next complete model and add it to `seen`; None if there is none. Adds incomplete ones to `waiting`."""
        for pattern, is_in_folder in self._in_folder.items():
            try:
                for name in matching(pattern):
                    if name in seen:
                        continue
                    try:  # a folder or a branch may be deleted between two looks
                        found = in_folder(at_home(name), SETTLE) if is_in_folder else on_hub(name)
                    except ModelError as error:
                        found = Found(name, name, "", error.problem)
                    if found.waits_for is not None:
                        waiting.append(found)
                    elif found.model not in seen:
                        seen.add(found.model)
                        if name != pattern and not has_models(pattern):
                            seen.add(name)
                        if not self._notes.leaves_out(found):
                            return found
                        self.left_out += seen is self._seen
            except HubError as error:  # stops no folder
                problems.append(error)
        return None


def _is_in_folder(name: str) -> bool:
    return (is_pattern(name) and not names_revision(name)) or at_home(name).is_dir()


def _parent(name: str) -> str:
    """Return the pattern of the folder in which the folders of a name are."""
    parent = str(at_home(name).parent)
    return parent if is_pattern(name) else escape(parent)
