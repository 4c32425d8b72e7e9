"""Questions that must not be published, such as those of GPQA: kept in a local file, and joined with the answers on reading.

The answer repository of such a benchmark holds ids, targets and answers. The file `<answer set id>.jsonl` in `questions_folder()`
holds for each question what the columns `COLUMNS` would, by sample id. A copy of it, a private repository (`REGRADE_QUESTIONS_REPOSITORY`),
or a run of the same command brings the questions to another machine.
"""

import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import orjson
import pyarrow as pa
from pydantic import BaseModel, ValidationError

from regrade.answers.base import Repository
from regrade.answers.opening import open_repository
from regrade.records import Sample
from regrade.records.columns import GENERATION_SCHEMA, doc_text
from regrade.settings.errors import DamagedAnswersError
from regrade.settings.files import named_folder, users_folder

FOLDER = "REGRADE_QUESTIONS"
"""Environment variable with the folder of the files; default: `regrade/questions` in the user's data folder."""


class _Question(BaseModel):
    """A line of a file: a question of which some columns may not be known yet."""

    sample_id: str
    question: str | None = None
    prompt: str | None = None
    choices: list[str | None] | None = None
    doc: str | None = None
    continuations: list[str | None] | None = None
    contexts: list[str | None] | None = None


COLUMNS = tuple(name for name in _Question.model_fields if name != "sample_id")
"""Columns of `GENERATION_SCHEMA` that would publish a question."""
EMPTY: Mapping[str, Any] = {name: [] if name == "choices" else None for name in COLUMNS}
"""Values of `COLUMNS` in the repository."""


def questions_folder() -> Path:
    """Return the folder of all withheld questions: `REGRADE_QUESTIONS`, or a folder in the user's data folder."""
    return named_folder(FOLDER) or users_folder("XDG_DATA_HOME", "~/.local/share") / "questions"


class WithheldQuestions:
    """Questions of an answer set, in a local file; empty if this machine has none."""

    def __init__(self, answer_set_id: str) -> None:
        self.path = questions_folder() / f"{answer_set_id}.jsonl"

    def add_samples(self, samples: Iterable[Sample]) -> None:
        """Keep question, choices and document of each sample, unless they are kept."""
        self._add(
            {
                "sample_id": sample.id,
                "question": sample.question,
                "choices": list(sample.choices),
                "doc": doc_text(sample),
                "continuations": list(sample.continuations) or None,
            }
            for sample in samples
            if sample.id not in self._known
        )

    def take(self, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Keep the questions of rows of `GENERATION_SCHEMA`, and return the rows without them.

        The questions are on disk when this returns.
        """
        rows = list(rows)
        self._add(
            {name: row[name] for name in ("sample_id", *COLUMNS)}
            for row in rows
            if self._known.get(row["sample_id"], EMPTY).get("prompt") is None
        )
        return [{**row, **EMPTY} for row in rows]

    def content(self) -> bytes:
        """Return the file's content; b"" if this machine has no questions."""
        return self.path.read_bytes() if self.path.is_file() else b""

    def merge(self, name: str, content: bytes) -> bool:
        """Add the questions of another machine's file, and return True if this machine has more than it.

        Args:
            name: Address of that file, for messages.
            content: Its content.

        Raises:
            DamagedAnswersError: If it is no such file.
        """
        theirs = _kept(name, content)
        self._add(
            kept
            for key, kept in theirs.items()
            if not kept.keys() <= self._known.get(key, {}).keys()
        )
        return any(
            not kept.keys() <= theirs.get(key, {}).keys() for key, kept in self._known.items()
        )

    def lacks(self, samples: int) -> int:
        """Count the questions of an answer set that this machine does not have."""
        return max(0, samples - len(self._known))

    def joined(self, batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
        """Return the named columns of a batch that has `sample_id`, with the questions if they are on this machine."""
        questions = [self._known.get(str(key), EMPTY) for key in batch["sample_id"].to_pylist()]
        arrays = [
            pa.array(
                [question.get(name, EMPTY[name]) for question in questions],
                GENERATION_SCHEMA.field(name).type,
            )
            if name in COLUMNS
            else batch[name]
            for name in columns
        ]
        return pa.record_batch(
            arrays, schema=pa.schema([GENERATION_SCHEMA.field(n) for n in columns])
        )

    @cached_property
    def _known(self) -> dict[str, dict[str, Any]]:
        return _kept(str(self.path), self.content())

    def _add(self, questions: Iterable[dict[str, Any]]) -> None:
        lines = [orjson.dumps(question) + b"\n" for question in questions]
        if not lines:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _locked(self.path) as file:
            file.write(b"".join(lines))
            file.flush()
            os.fsync(file.fileno())
        for line in lines:
            question = orjson.loads(line)
            kept = self._known.setdefault(question["sample_id"], {})
            kept.update(_given(question))


def _given(question: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in question.items() if value is not None}


def _kept(name: str, content: bytes) -> dict[str, dict[str, Any]]:
    """Return what a file's content has of each question, by sample id; errors as in `WithheldQuestions.merge`."""
    known: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(content.splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):  # written while the machine lost power
            break
        try:
            question = _Question.model_validate_json(line).model_dump()
        except ValidationError as error:
            raise DamagedAnswersError(
                name, f"line {number} is not a withheld question. Restore the file from a copy."
            ) from error
        known.setdefault(question["sample_id"], {}).update(_given(question))
    return known


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """Yield a file at its end, after the last whole line; other processes wait."""
    with path.open("a+b") as file:
        path.chmod(0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        content = file.read()
        file.truncate(content.rfind(b"\n") + 1)
        yield file


# Withheld questions in a private repository, so that all machines of a team have them:
# `REGRADE_QUESTIONS_REPOSITORY`.

REPOSITORY = "REGRADE_QUESTIONS_REPOSITORY"
"""Environment variable with the address of the repository, `hf://datasets/ORG/NAME` or a folder."""


def share_questions(questions: WithheldQuestions) -> str | None:
    """Add this machine's questions to the private repository, and those that it has to this machine, in one commit.

    Returns:
        The new revision; None if nothing is new, or no repository is set.

    Raises:
        HeadMovedError: If another machine added some at the same time; call it again.
        RepositoryError: If the repository is public, or cannot be written.
        DamagedAnswersError: If its file is no file of questions.
    """
    repository = _repository(create=True)
    if repository is None:
        return None
    head = repository.head()
    if not questions.merge(repository.uri, _stored(repository, questions, head)):
        return None
    message = f"Questions of answer set {questions.path.stem}"
    return repository.commit({_path(questions): questions.content()}, message, parent=head)


def questions_at_hand(answer_set_id: str, samples: int) -> WithheldQuestions:
    """Return the questions of an answer set; if some are missing, after reading the private repository, if one is set.

    Args:
        answer_set_id: The answer set.
        samples: Its number of questions.

    Raises:
        RepositoryError: If the repository does not exist, is public, or cannot be read.
        DamagedAnswersError: If its file is no file of questions.
    """
    questions = WithheldQuestions(answer_set_id)
    if questions.lacks(samples):
        repository = _repository(create=False)
        if repository is not None:
            questions.merge(repository.uri, _stored(repository, questions, repository.head()))
    return questions


def _repository(*, create: bool) -> Repository | None:
    uri = os.environ.get(REPOSITORY)
    if not uri:
        return None
    repository = open_repository(uri, create=create, empty=True)
    if uri.startswith("hf://"):
        from regrade.answers.hub import HubRepository  # noqa: PLC0415 - slow import that folders do not need

        assert isinstance(repository, HubRepository)  # noqa: S101 - by its address
        repository.check_private()
    return repository


def _stored(repository: Repository, questions: WithheldQuestions, head: str | None) -> bytes:
    path = _path(questions)
    if head is None or path not in repository.files(head, "questions"):
        return b""
    return repository.fetch(path, head).read_bytes()


def _path(questions: WithheldQuestions) -> str:
    return f"questions/{questions.path.name}"
