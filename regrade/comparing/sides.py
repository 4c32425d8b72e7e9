"""Find the answer sets of a side by name: alias, answer set id, or model (its fullest complete sets)."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from regrade.answers.aliases import aliased_sets, is_alias_name, read_alias
from regrade.answers.base import Repository
from regrade.answers.opening import newest_revision, open_repository
from regrade.answers.sets import (
    AnswerSet,
    begins_an_id,
    list_sets,
    manifest_paths,
    name_left_out,
    readable_sets,
)
from regrade.records.rubrics.facts import judge_run
from regrade.records.specification import path_component
from regrade.settings import JUDGE_PREFIX
from regrade.settings.errors import DamagedAnswersError, IncompleteError, RepositoryError


@dataclass(frozen=True, slots=True)
class Side:
    """The answer sets of one side of a comparison."""

    name: str
    """Alias, answer set id or model, as given by the user."""
    sets: dict[str, AnswerSet]
    """Answer sets by benchmark; empty only of a side of a gate without complete answers."""
    one_set: bool
    """The name is an answer set id, not a model or an alias."""
    lacking: str | None = None
    """Reason why a side of a gate has no answer sets."""


def find_side(name: str, answers: str, benchmarks: Collection[str] = ()) -> Side:
    """Return the answer sets that `name` refers to, at the newest revision.

    A model stands for its complete answer set with the most questions of each benchmark, or the newest of these: a run
    on a few questions never replaces a full run. One whose manifest cannot be read might be that set.

    Args:
        name: Alias, id of an answer set (the first four digits or more), or model (`org/name`, its last part, or its folder).
        answers: Address of the answer repository.
        benchmarks: Benchmarks to include. Empty: all.

    Raises:
        RepositoryError: If the repository does not exist, or no answer set in it fits.
        IncompleteError: If none is complete, or complete ones are of other benchmarks.
        DamagedAnswersError: If the fitting answer set is damaged, or one that may be it.
    """
    repository = open_repository(answers, create=False)
    return side_at(repository, newest_revision(repository), name, benchmarks)


def side_at(
    repository: Repository, revision: str, name: str, benchmarks: Collection[str] = ()
) -> Side:
    """Return the answer sets that `name` refers to at a revision; see `find_side`."""
    one_set = False
    if alias := read_alias(repository, revision, name):
        sets = aliased_sets(repository, revision, alias)
    elif _is_id(repository, revision, name):
        sets, one_set = _by_benchmark(list_sets(repository, revision, answer_set_id=name)), True
    else:
        readable, damaged = _answers_of(repository, revision, name)
        folders = {path_component(benchmark) for benchmark in benchmarks}
        for error in damaged:
            benchmark = PurePosixPath(error.path).parts[1]
            if benchmark.startswith(path_component(JUDGE_PREFIX)):
                name_left_out(repository, revision, [error])
            elif not folders or benchmark in folders:
                raise DamagedAnswersError(
                    error.path,
                    f"{error.problem}. It may be what '{name}' stands for: mend it, or give ids or other benchmarks",
                )
        sets = _by_benchmark(
            answers for answers in readable if answers.manifest.state == "complete"
        )
        if not sets:
            raise IncompleteError(repository.uri, _only_incomplete(name, readable))
    chosen = {key: sets[key] for key in sets if not benchmarks or key in benchmarks}
    if not chosen:
        raise IncompleteError(
            repository.uri,
            f"'{name}' has no complete answers to {', '.join(sorted(benchmarks))}, only to {', '.join(sorted(sets))}.",
        )
    return Side(name, chosen, one_set)


def named_id(repository: Repository, revision: str, name: str, *, newest: bool = False) -> str:
    """Return the id of the one answer set that a name refers to, for commands that are about one.

    Args:
        repository: Repository of the answers.
        revision: Revision to look at.
        name: Alias, id (the first four digits or more), or model (`org/name`, its last part, or its folder).
        newest: Of several answer sets of a model or an alias, take the newest; else they are an error that lists them.

    Raises:
        RepositoryError: If nothing has that name, or several sets have it.
        DamagedAnswersError: If the only fitting answer set is damaged.
    """
    if alias := read_alias(repository, revision, name):
        sets = list(aliased_sets(repository, revision, alias).values())
    elif _is_id(repository, revision, name):
        return name
    else:
        sets, damaged = _answers_of(repository, revision, name)
        name_left_out(repository, revision, damaged)
    sets.sort(key=lambda answers: answers.manifest.updated_at)
    if len(sets) > 1 and not newest:
        listed = "; ".join(
            f"{manifest.answer_set_id} ({manifest.specification.benchmark.name}, {manifest.rows:,} answers)"
            for manifest in (answers.manifest for answers in reversed(sets[-8:]))
        )
        raise RepositoryError(
            repository.uri,
            f"'{name}' has {len(sets)} answer sets, and this is about one: {listed}.",
        )
    return sets[-1].manifest.answer_set_id


def _is_id(repository: Repository, revision: str, name: str) -> bool:
    paths = manifest_paths(repository.files(revision, "answers"))
    return begins_an_id(name, (path.split("/")[3] for path in paths))


def _answers_of(
    repository: Repository, revision: str, model: str
) -> tuple[list[AnswerSet], list[DamagedAnswersError]]:
    """Return the answer sets of a model, oldest first, and the errors of those that cannot be read."""
    readable, damaged = readable_sets(repository, revision, model=model)
    # A judge's verdicts are no answers of the judge as a candidate.
    found = [s for s in readable if judge_run(s.manifest.specification) is None]
    if not found:
        raise damaged[0] if damaged else RepositoryError(repository.uri, _nothing_fits(model))
    return found, damaged


def _by_benchmark(sets: Iterable[AnswerSet]) -> dict[str, AnswerSet]:
    """Return the answer set with the most questions of each benchmark; of several, the last one given."""
    fullest: dict[str, AnswerSet] = {}
    for answers in sets:
        name = answers.manifest.specification.benchmark.name
        if name not in fullest or answers.manifest.n_samples >= fullest[name].manifest.n_samples:
            fullest[name] = answers
    return fullest


def _only_incomplete(name: str, incomplete: list[AnswerSet]) -> str:
    ids = ", ".join(
        f"{manifest.answer_set_id} ({manifest.answered})"
        for manifest in (answers.manifest for answers in incomplete[-5:])
    )
    return (
        f"model '{name}' has no complete answers, only {ids}. Finish them with `regrade generate`, or give the "
        "id of an answer set."
    )


def _nothing_fits(name: str) -> str:
    alias = (
        ", and no alias of that name (`regrade promote` creates one)" if is_alias_name(name) else ""
    )
    return f"there are no answers of '{name}'{alias}. `regrade list` shows all answer sets."
