"""Compare two sides on all benchmarks that both have."""

from collections.abc import Collection
from dataclasses import dataclass

from regrade.comparing.comparison import Compared, CompareOptions, compare_sets
from regrade.comparing.judge_runs import with_judge_runs
from regrade.comparing.likeness import NotComparableError
from regrade.comparing.models import Comparisons, Refusal
from regrade.comparing.sides import Side, find_side


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
        """The comparisons as a model for output, without the counts of the tests."""
        return Comparisons(
            base=self.base.name,
            candidate=self.candidate.name,
            compared=tuple(pair.comparison for pair in self.compared.values()),
            refused=tuple(Refusal(benchmark=k, reason=why) for k, why in self.refused.items()),
            only_base=self.only_base,
            only_candidate=self.only_candidate,
        )


def compare_sides(
    base: str,
    candidate: str | Side,
    *,
    answers: str,
    base_answers: str | None = None,
    benchmarks: Collection[str] = (),
    options: CompareOptions | None = None,
) -> ComparedBenchmarks:
    """Compare two sides benchmark by benchmark.

    Answers that were judged are compared by the verdicts of a judge and a rubric that both sides have.

    If both names are answer set ids, the two sets are compared even if their benchmarks have different names. If one
    name is an id, only its benchmark is compared.

    Args:
        base: Alias, answer set id or model.
        candidate: Alias, answer set id or model, or answer sets found before.
        answers: Address of the answer repository.
        base_answers: Address of the baseline's repository, if it is another.
        benchmarks: Benchmarks to compare. Empty: all.
        options: Options of the comparison.

    Raises:
        RepositoryError: If a repository or a side does not exist.
        DamagedAnswersError: If answers are damaged.
    """
    left = find_side(base, base_answers or answers, benchmarks)
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
    compared: dict[str, Compared] = {}
    refused: dict[str, str] = {}
    for old, new in names.items():
        try:
            compared[old] = compare_sets(
                left.sets[old], right.sets[new], options or CompareOptions()
            )
        except NotComparableError as error:
            refused[old] = str(error)
    return ComparedBenchmarks(
        left,
        right,
        compared,
        refused,
        tuple(name for name in left.sets if name not in names),
        tuple(name for name in right.sets if name not in names.values()),
    )
