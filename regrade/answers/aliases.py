"""Aliases: movable names such as `baseline` for one answer set of each benchmark.

An alias is the file `aliases/<name>.json` in the answer repository. It is untrusted input: it is validated on
reading, and can only name answer sets of the same repository.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from pydantic import Field

from regrade.answers.base import Repository
from regrade.answers.documents import find_json
from regrade.answers.publishing import retry_on_conflict
from regrade.answers.sets import AnswerSet, list_sets
from regrade.records.columns import SCHEMA_VERSION
from regrade.records.specification import BenchmarkName
from regrade.settings import ALIAS_NAME, AnswerSetId, StrictModel, Timestamp
from regrade.settings.errors import DamagedAnswersError, RepositoryError, SettingsError

FOLDER = "aliases"
MAX_BENCHMARKS = 1000


class Alias(StrictModel):
    """The answer sets that a name stands for."""

    schema_version: int = SCHEMA_VERSION
    name: str = Field(pattern=ALIAS_NAME)
    answer_sets: dict[BenchmarkName, AnswerSetId] = Field(min_length=1, max_length=MAX_BENCHMARKS)
    """Answer set id by benchmark."""
    moved_at: Timestamp


def is_alias_name(text: str) -> bool:
    """Return True if a text is a valid alias name."""
    return re.fullmatch(ALIAS_NAME, text) is not None


def read_alias(repository: Repository, revision: str, name: str) -> Alias | None:
    """Return an alias, or None if no alias of that name exists.

    Raises:
        DamagedAnswersError: If its file is not valid.
    """
    if not is_alias_name(name):
        return None
    path = f"{FOLDER}/{name}.json"
    alias = find_json(repository, path, revision, Alias, "an alias")
    if alias is not None and alias.name != name:
        raise DamagedAnswersError(path, f"its content belongs to alias '{alias.name}'.")
    return alias


def aliases_by_set(
    repository: Repository, revision: str
) -> tuple[dict[str, list[str]], list[DamagedAnswersError]]:
    """Return the aliases of each answer set by its id, and the errors of aliases that cannot be read."""
    found: dict[str, list[str]] = {}
    damaged = []
    for path in sorted(repository.files(revision, FOLDER)):
        name = path.removeprefix(f"{FOLDER}/").removesuffix(".json")
        try:
            alias = read_alias(repository, revision, name)
        except DamagedAnswersError as error:
            damaged.append(error)
            continue
        for answer_set_id in alias.answer_sets.values() if alias else ():
            found.setdefault(answer_set_id, []).append(name)
    return found, damaged


def aliased_sets(repository: Repository, revision: str, alias: Alias) -> dict[str, AnswerSet]:
    """Return the answer sets that an alias stands for, by benchmark.

    Raises:
        DamagedAnswersError: If an answer set is missing or belongs to another benchmark.
    """
    sets: dict[str, AnswerSet] = {}
    path = f"{FOLDER}/{alias.name}.json"
    for benchmark, answer_set_id in alias.answer_sets.items():
        try:
            (answers,) = list_sets(
                repository, revision, benchmark=benchmark, answer_set_id=answer_set_id
            )
        except RepositoryError as error:
            raise DamagedAnswersError(
                path,
                f"{benchmark} has no answer set '{answer_set_id}'. Move the alias with `regrade promote`.",
            ) from error
        sets[benchmark] = answers
    return sets


def move_alias(
    repository: Repository,
    name: str,
    sets: Sequence[AnswerSet],
    check: Callable[[Mapping[str, AnswerSet]], None] = lambda _: None,
) -> tuple[Alias, str]:
    """Point an alias at answer sets, in one commit; its entries for other benchmarks stay.

    Args:
        repository: Repository of the answer sets.
        name: Lower-case letters, digits, `-` and `_`.
        sets: At most one of each benchmark.
        check: Called with what the alias stands for, by benchmark, at the commit that the move builds on; empty if there is no
            alias. If it raises an error, the alias stays as it is.

    Returns:
        The new alias, and the commit that contains it.

    Raises:
        SettingsError: If the name is not valid, or two sets belong to one benchmark.
        DamagedAnswersError: If the stored alias cannot be read, or answers are missing or have another size.
    """
    if not is_alias_name(name):
        raise SettingsError(
            f"Alias '{name}' should be up to 63 lower-case letters, digits, `-` and `_`, and begin with a letter, such as `baseline`."
        )
    moved = {
        answers.manifest.specification.benchmark.name: answers.manifest.answer_set_id
        for answers in sets
    }
    if not sets or len(moved) != len(sets):
        raise SettingsError(f"Alias '{name}' needs one answer set of each benchmark.")
    for answers in sets:
        if damaged := answers.damaged_shards():
            raise next(iter(damaged.values()))

    def attempt() -> tuple[Alias, str]:
        head = repository.head()
        stored = read_alias(repository, head, name) if head else None
        check(aliased_sets(repository, head, stored) if stored and head else {})
        before = stored.answer_sets if stored else {}
        if stored and head and before == {**before, **moved}:
            return stored, head
        alias = Alias(name=name, answer_sets={**before, **moved}, moved_at=datetime.now(UTC))
        content = alias.model_dump_json(indent=1).encode()
        message = f"Alias {name}: {', '.join(f'{key} {value}' for key, value in moved.items())}"
        return alias, repository.commit({f"{FOLDER}/{name}.json": content}, message, parent=head)

    return retry_on_conflict(attempt)
