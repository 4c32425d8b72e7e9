"""Journal of labels given in a terminal that are not stored in the repository yet; a crash loses none of them."""

import os
import re
from datetime import datetime
from pathlib import Path
from typing import Self

import orjson
from filelock import FileLock, Timeout

from regrade.answers.spool import spool_folder, spool_root
from regrade.judging.labels.sampling import Key
from regrade.judging.labels.stored import Label
from regrade.judging.labels.task import LabelTask
from regrade.settings.errors import OperationError, SettingsError


class Journal:
    """Labels of one person on one answer set, one JSON line each. Use it as a context manager."""

    def __init__(self, task: LabelTask, rater: str) -> None:
        """Choose the file, beside the folder of the spool."""
        name = re.sub(r"[^\w.-]", "-", rater)
        answers = task.answers
        folder = spool_folder(answers.repository.uri, answers.manifest.answer_set_id)
        root = spool_root().with_name("labels")
        field = f"@{task.field}" if task.field else ""
        self.path: Path = root / folder.parent.name / f"{folder.name}-{name}{field}.jsonl"
        self._rater = rater
        self._lock = FileLock(f"{self.path}.lock")
        self.labels: dict[Key, Label] = {}
        """Latest label of each answer."""

    def __enter__(self) -> Self:
        """Lock the journal and read it.

        Raises:
            SettingsError: If the same person labels these answers in another terminal.
            OperationError: If the journal cannot be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
        except Timeout as error:
            raise SettingsError(
                f"'{self._rater}' labels these answers in another terminal; its labels are kept in '{self.path}'."
            ) from error
        except OSError as error:
            raise OperationError(f"'{self.path}' cannot be written: {error.strerror}.") from error
        if self.path.exists():
            for line in self.path.read_bytes().split(b"\n"):
                self._read(line)
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def add(self, label: Label) -> None:
        """Keep a label on disk."""
        line = {
            "sample_id": label.key[0],
            "repeat": label.key[1],
            "label": label.label,
            "value": label.value,
            "labelled_at": label.labelled_at.isoformat(),
        }
        with self.path.open("ab") as file:
            file.write(orjson.dumps(line) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.labels[label.key] = label

    def clear(self) -> None:
        """Delete the journal, after its labels are stored."""
        self.path.unlink(missing_ok=True)
        self.labels = {}

    def _read(self, line: bytes) -> None:
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            return  # cut off by a crash: its label was never reported as kept
        key = (row["sample_id"], row["repeat"])
        at = datetime.fromisoformat(row["labelled_at"])
        self.labels[key] = Label(key, row["label"], row["value"], self._rater, at)
