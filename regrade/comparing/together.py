"""Compare two sides on all benchmarks that both have."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from regrade.answers.manifest import Manifest
from regrade.answers.sets import AnswerSet
from regrade.comparing.comparison import Compared, CompareOptions, compare_sets
from regrade.comparing.likeness import NotComparableError
from regrade.comparing.models import Comparisons, Refusal
from regrade.comparing.noise import beside_noise
from regrade.comparing.sides import Side, find_side
from regrade.judging.stored import is_unchanged, judge_runs
from regrade.records.rubrics.facts import JudgeIdentity, judge_identity, judge_run
from regrade.scorers import JUDGE
from regrade.settings.errors import SettingsError

# Judge runs on the answers of two sides, to compare models by a judge's verdicts.

JudgeKey = tuple[str, str, str | None, JudgeIdentity]
"""Benchmark of a judge run, hashes of its rubric and of its criteria, and the judge."""
Runs = dict[JudgeKey, AnswerSet]


def with_judge_runs(base: Side, candidate: Side) -> tuple[Side, Side]:
    """Return the sides with the judge runs on their answers.

    If there are several judges or versions of a rubric, both sides get a pair of runs that both have: with the most
    questions, or the newest of these. Without such a pair, each side gets its best run, and the comparison reports the
    difference. Runs on answers that were changed since are left out, unless a side has no others: then the comparison
    reports the change. Answers that only a judge can grade are replaced by their judge run. Answers that have a scorer
    of their own stay, and judge runs are added if both sides have some.
    """
    runs = _runs(base), _runs(candidate)
    sides = dict(base.sets), dict(candidate.sets)
    for name in sorted({key[0] for side in runs for key in side}):
        left, right = ([key for key in side if key[0] == name] for side in runs)
        if left and right:
            shared = [key for key in left if key in right]
            sides[0][name] = runs[0][shared[-1] if shared else left[-1]]
            sides[1][name] = runs[1][shared[-1] if shared else right[-1]]
            continue
        for side, found, keys in zip(sides, runs, (left, right), strict=True):
            if keys and _waits(side.values(), found[keys[-1]]):
                side[name] = found[keys[-1]]
    kept = [
        {name: answers for name, answers in side.items() if not _is_judged(answers, found)}
        for side, found in zip(sides, runs, strict=True)
    ]
    return replace(base, sets=kept[0]), replace(candidate, sets=kept[1])


def _runs(side: Side) -> Runs:
    """Return the complete judge runs on the answers of a side, ordered by number of questions, then by age, the newest last."""
    if not side.sets:
        return {}
    by_id = {answers.manifest.answer_set_id: answers for answers in side.sets.values()}
    found: list[tuple[bool, AnswerSet, JudgeKey]] = []
    first = next(iter(side.sets.values()))
    for answers, run in judge_runs(first.repository, first.revision):
        specification = answers.manifest.specification
        if run.judged is None or answers.manifest.state != "complete":
            continue
        judged = by_id.get(run.judged.answer_set_id)
        if judged is not None:
            judge = judge_identity(specification.as_told)
            key = (specification.benchmark.name, run.rubric.sha256, run.criteria, judge)
            found.append((is_unchanged(judged, run.judged), answers, key))
    fit = {key[0] for unchanged, _, key in found if unchanged}
    runs: Runs = {}
    for unchanged, answers, key in sorted(found, key=lambda one: one[1].manifest.n_samples):
        if unchanged or key[0] not in fit:
            runs.pop(key, None)
            runs[key] = answers
    return runs


def _waits(sets: Iterable[AnswerSet], judge_set: AnswerSet) -> bool:
    """Return True if the judge is the only scorer of the answers of a judge run."""
    judged_id = _judged_id(judge_set)
    return any(
        answers.manifest.answer_set_id == judged_id and answers.manifest.scorers[0] == JUDGE
        for answers in sets
    )


def _is_judged(answers: AnswerSet, runs: Runs) -> bool:
    """Return True for answers that only a judge can grade and that a judge run has graded."""
    if answers.manifest.scorers[0] != JUDGE or _judged_id(answers) is not None:
        return False
    return answers.manifest.answer_set_id in {_judged_id(run) for run in runs.values()}


def _judged_id(judge_set: AnswerSet) -> str | None:
    run = judge_run(judge_set.manifest.specification)
    return run.judged.answer_set_id if run and run.judged else None


@dataclass(frozen=True, slots=True)
class ComparedBenchmarks:
    """All benchmarks of two sides, compared or not."""

    base: Side
    candidate: Side
    compared: dict[str, Compared]
    refused: dict[str, str]
    """Reason by benchmark."""
    only_base: tuple[str, ...]
    only_candidate: tuple[str, ...]

    @property
    def comparisons(self) -> Comparisons:
        """The comparisons as a model for JSON, without the counts of the tests."""
        return Comparisons(
            base=self.base.name,
            candidate=self.candidate.name,
            compared=tuple(pair.comparison for pair in self.compared.values()),
            refused=tuple(Refusal(benchmark=k, reason=why) for k, why in self.refused.items()),
            only_base=self.only_base,
            only_candidate=self.only_candidate,
        )


def compare_sides(
    base: str | Side,
    candidate: str | Side,
    *,
    answers: str,
    base_answers: str | None = None,
    benchmarks: Collection[str] = (),
    options: CompareOptions | None = None,
    check: Callable[[Mapping[str, tuple[Manifest, Manifest]]], None] | None = None,
) -> ComparedBenchmarks:
    """Compare two sides benchmark by benchmark.

    Answers that were judged are compared by the verdicts of a judge and a rubric that both sides have.

    If both names are answer set ids, the two sets are compared even if their benchmarks have different names. If one
    name is an id, only its benchmark is compared.

    Args:
        base: Alias, answer set id or model, or answer sets found before.
        candidate: The same.
        answers: Address of the answer repository.
        base_answers: Address of the baseline's repository, if it is another.
        benchmarks: Benchmarks to compare. Empty: all.
        options: Options of the comparison.
        check: Called with the manifests of both sides by benchmark that both have, different ones, before anything is read.

    Raises:
        RepositoryError: If a repository or a side does not exist.
        SettingsError: If the chosen scorer cannot score the answers; one that nobody chose refuses its benchmark.
        DamagedAnswersError: If answers are damaged.
    """
    left = find_side(base, base_answers or answers, benchmarks) if isinstance(base, str) else base
    right = find_side(candidate, answers, benchmarks) if isinstance(candidate, str) else candidate
    if left.one_set and not right.one_set and (shared := right.sets.keys() & left.sets.keys()):
        right = Side(right.name, {name: right.sets[name] for name in shared}, False)
    elif right.one_set and not left.one_set and (shared := left.sets.keys() & right.sets.keys()):
        left = Side(left.name, {name: left.sets[name] for name in shared}, False)
    if not left.one_set and not right.one_set:
        left, right = with_judge_runs(left, right)
    names = {name: name for name in left.sets if name in right.sets}
    if not names and len(left.sets) == len(right.sets) == 1:
        names = dict(zip(left.sets, right.sets, strict=True))
    if check is not None:
        # Two benchmarks may have no common question, which is to be said before that they have too few.
        pairs = {
            name: (left.sets[name].manifest, right.sets[name].manifest)
            for name in names
            if name in right.sets
        }
        check({k: pair for k, pair in pairs.items() if len({m.answer_set_id for m in pair}) > 1})
    options = options or CompareOptions()
    compared: dict[str, Compared] = {}
    refused: dict[str, str] = {}
    for old, new in names.items():
        try:
            found = compare_sets(left.sets[old], right.sets[new], options)
            compared[old] = beside_noise(found, options.scoring)
        except SettingsError as error:
            if options.scorer is not None and not isinstance(error, NotComparableError):
                raise
            # Two sets of different benchmarks may have the same questions; if they have none, their names tell why.
            apart = f"The sides have no benchmark in common: the baseline has {old}, the candidate {new}. "
            refused[old] = f"{apart if old != new else ''}{error}"
    return ComparedBenchmarks(
        left,
        right,
        compared,
        refused,
        tuple(name for name in left.sets if name not in names),
        tuple(name for name in right.sets if name not in names.values()),
    )
