"""Aliases: names such as `baseline` that stand for one answer set of each benchmark, and can be moved.

`aliases/<name>.json` in the answer repository. Like all of a repository it may come from a stranger: it is
validated on reading, and only ever names answer sets of the same repository.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

from pydantic import AwareDatetime, Field

from regrade.answers.base import Repository
from regrade.answers.documents import read_json
from regrade.answers.publishing import on_moving_head
from regrade.answers.sets import AnswerSet, list_sets
from regrade.errors import DamagedAnswersError, RepositoryError, SettingsError
from regrade.records import SCHEMA_VERSION
from regrade.settings import Settings

FOLDER = "aliases"
NAME = r"^[a-z][a-z0-9_-]{0,62}$"
MAX_BENCHMARKS = 1000
Benchmark = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]
AnswerSetId = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]


class Alias(Settings):
    """What a name stands for."""

    schema_version: int = SCHEMA_VERSION
    name: str = Field(pattern=NAME)
    answer_sets: dict[Benchmark, AnswerSetId] = Field(min_length=1, max_length=MAX_BENCHMARKS)
    """Answer set id by benchmark."""
    moved_at: AwareDatetime


def is_alias_name(text: str) -> bool:
    """Return whether a text could be the name of an alias."""
    return re.fullmatch(NAME, text) is not None


def read_alias(repository: Repository, revision: str, name: str) -> Alias | None:
    """Return an alias, or None where there is none of that name.

    Raises:
        DamagedAnswersError: If its file is not what it should be.
    """
    if not is_alias_name(name):
        return None
    path = f"{FOLDER}/{name}.json"
    known = repository.files(revision, FOLDER).get(path)
    if known is None:
        return None
    alias = read_json(repository, path, revision, Alias, "an alias", known.size)
    if alias.name != name:
        raise DamagedAnswersError(path, f"it is of alias '{alias.name}'.")
    return alias


def aliased_sets(repository: Repository, revision: str, alias: Alias) -> dict[str, AnswerSet]:
    """Return the answer sets that an alias stands for, by benchmark.

    Raises:
        DamagedAnswersError: If one is not there, or is of another benchmark.
    """
    found: dict[str, AnswerSet] = {}
    path = f"{FOLDER}/{alias.name}.json"
    for benchmark, answer_set_id in alias.answer_sets.items():
        try:
            (answers,) = list_sets(
                repository, revision, benchmark=benchmark, answer_set_id=answer_set_id
            )
        except RepositoryError as error:
            raise DamagedAnswersError(
                path,
                f"there are no answers '{answer_set_id}' to {benchmark}. Move the alias with `regrade promote`.",
            ) from error
        found[benchmark] = answers
    return found


def move_alias(repository: Repository, name: str, sets: Sequence[AnswerSet]) -> tuple[Alias, str]:
    """Let an alias stand for some answer sets, in one commit; other benchmarks keep what they had.

    Args:
        repository: That holds the answer sets.
        name: Lower-case letters, digits, `-` and `_`.
        sets: At most one of each benchmark.

    Returns:
        The alias as it is now, and the commit that holds it.

    Raises:
        SettingsError: If the name cannot be one, or there are two sets of one benchmark.
        DamagedAnswersError: If the alias that is there cannot be read.
    """
    if not is_alias_name(name):
        raise SettingsError(
            f"'{name}' should be up to 63 lower-case letters, digits, `-` and `_`, and begin with a letter."
        )
    moved = {
        answers.manifest.specification.benchmark.name: answers.manifest.answer_set_id
        for answers in sets
    }
    if not sets or len(moved) != len(sets):
        raise SettingsError(f"Alias '{name}' stands for one answer set of each benchmark.")

    def attempt() -> tuple[Alias, str]:
        head = repository.head()
        stored = read_alias(repository, head, name) if head else None
        before = stored.answer_sets if stored else {}
        if stored and head and before == {**before, **moved}:
            return stored, head
        alias = Alias(name=name, answer_sets={**before, **moved}, moved_at=datetime.now(UTC))
        content = alias.model_dump_json(indent=1).encode()
        message = f"Alias {name}: {', '.join(f'{key} {value}' for key, value in moved.items())}"
        return alias, repository.commit({f"{FOLDER}/{name}.json": content}, message, parent=head)

    return on_moving_head(attempt)
