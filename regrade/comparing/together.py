"""Two sides with all benchmarks that they have in common."""

from collections.abc import Collection
from dataclasses import dataclass

from regrade.comparing.comparison import Compared, HowToCompare, compare_sets
from regrade.comparing.likeness import NotComparableError
from regrade.comparing.models import Comparisons, Refusal
from regrade.comparing.sides import Side, find_side


@dataclass(frozen=True, slots=True)
class Together:
    """Every benchmark of two sides, compared or not."""

    base: Side
    candidate: Side
    compared: dict[str, Compared]
    refused: dict[str, str]
    """Why, by benchmark."""
    only_base: tuple[str, ...]
    only_candidate: tuple[str, ...]

    @property
    def comparisons(self) -> Comparisons:
        """The same as plain values."""
        return Comparisons(
            base=self.base.asked,
            candidate=self.candidate.asked,
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
    how: HowToCompare | None = None,
) -> Together:
    """Compare what two names stand for, benchmark by benchmark.

    Two answer sets that are named by their ids are compared whatever their benchmarks are called; where only one is
    an id, the other side is asked for the same benchmark.

    Args:
        base: Alias, answer set id or model.
        candidate: The same, or answer sets that were found already.
        answers: Address of the answer repository.
        base_answers: Address of the baseline's, if it is another one.
        benchmarks: Only these. Empty: all.
        how: What a person says of the comparison.

    Raises:
        RepositoryError: If a repository or a side is not there.
        DamagedAnswersError: If answers are damaged.
    """
    left = find_side(base, base_answers or answers, benchmarks)
    right = find_side(candidate, answers, benchmarks) if isinstance(candidate, str) else candidate
    if left.one_set and not right.one_set and (shared := right.sets.keys() & left.sets.keys()):
        right = Side(right.asked, {name: right.sets[name] for name in shared}, False)
    elif right.one_set and not left.one_set and (shared := left.sets.keys() & right.sets.keys()):
        left = Side(left.asked, {name: left.sets[name] for name in shared}, False)
    names = {name: name for name in left.sets if name in right.sets}
    if not names and len(left.sets) == len(right.sets) == 1:
        names = dict(zip(left.sets, right.sets, strict=True))
    compared: dict[str, Compared] = {}
    refused: dict[str, str] = {}
    for old, new in names.items():
        try:
            compared[old] = compare_sets(left.sets[old], right.sets[new], how or HowToCompare())
        except NotComparableError as error:
            refused[old] = str(error)
    return Together(
        left,
        right,
        compared,
        refused,
        tuple(name for name in left.sets if name not in names),
        tuple(name for name in right.sets if name not in names.values()),
    )
