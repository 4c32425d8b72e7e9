"""From what a person names to answer sets: an alias, an id, or a model with its newest complete sets."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from regrade.answers.aliases import aliased_sets, is_alias_name, read_alias
from regrade.answers.opening import open_repository
from regrade.answers.sets import AnswerSet, list_sets, manifest_paths, readable_sets
from regrade.errors import RepositoryError

_ID = re.compile(r"[0-9a-f]{4,16}")


@dataclass(frozen=True, slots=True)
class Side:
    """What one name stands for."""

    asked: str
    sets: dict[str, AnswerSet]
    """By benchmark, at least one."""
    one_set: bool
    """Whether an answer set was named, and not a model or an alias."""


def find_side(asked: str, answers: str, benchmarks: Collection[str] = ()) -> Side:
    """Return the answer sets that a name stands for, at the newest revision.

    Args:
        asked: Alias, id of an answer set (the first four digits or more), or model (`org/name`, its last part, or its folder).
        answers: Address of the answer repository.
        benchmarks: Only these. Empty: all.

    Raises:
        RepositoryError: If there is no such repository, or nothing in it fits.
        DamagedAnswersError: If what fits is damaged.
    """
    repository = open_repository(answers, create=False)
    revision = repository.head()
    if revision is None:
        raise RepositoryError(repository.uri, "it holds no answers yet.")
    one_set = False
    if alias := read_alias(repository, revision, asked):
        sets = aliased_sets(repository, revision, alias)
    elif _ID.fullmatch(asked) and _holds(
        asked, manifest_paths(repository.files(revision, "answers"))
    ):
        sets, one_set = _by_benchmark(list_sets(repository, revision, answer_set_id=asked)), True
    else:
        found, damaged = readable_sets(repository, revision, model=asked)
        sets = _by_benchmark(entry for entry in found if entry.manifest.state == "complete")
        if not sets:
            if damaged:
                raise damaged[0]
            raise RepositoryError(repository.uri, _nothing(asked, found))
    chosen = {name: sets[name] for name in sets if not benchmarks or name in benchmarks}
    if not chosen:
        raise RepositoryError(
            repository.uri,
            f"'{asked}' has no complete answers to {', '.join(sorted(benchmarks))}, only to {', '.join(sorted(sets))}.",
        )
    return Side(asked, chosen, one_set)


def _by_benchmark(sets: Iterable[AnswerSet]) -> dict[str, AnswerSet]:
    """Return the last answer set of each benchmark."""
    return {answers.manifest.specification.benchmark.name: answers for answers in sets}


def _holds(asked: str, paths: list[str]) -> bool:
    return any(path.split("/")[3].startswith(asked) for path in paths)


def _nothing(asked: str, incomplete: list[AnswerSet]) -> str:
    if incomplete:
        ids = ", ".join(
            f"{manifest.answer_set_id} ({manifest.rows:,} of "
            f"{manifest.n_samples * manifest.specification.repeats:,} rows)"
            for manifest in (answers.manifest for answers in incomplete[-5:])
        )
        return (
            f"model '{asked}' has no complete answers, only {ids}. Finish them with `regrade generate`, or name one by "
            "its id."
        )
    alias = (
        ", and no alias of that name (`regrade promote` makes one)" if is_alias_name(asked) else ""
    )
    return f"there are no answers of '{asked}'{alias}. `regrade list` shows what is there."
