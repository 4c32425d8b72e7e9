"""Results of verifying a repository."""

from dataclasses import dataclass, field

from regrade.errors import OperationError


@dataclass(frozen=True, slots=True)
class Problem:
    """A damaged or unexpected file."""

    path: str
    problem: str


@dataclass(slots=True)
class Verified:
    """Counts of the verified parts, and the problems."""

    answer_sets: int = 0
    shards: int = 0
    rows: int = 0
    scorings: int = 0
    problems: list[Problem] = field(default_factory=list)


class NotIntactError(OperationError):
    """Verification found problems, which were reported before."""

    def __init__(self, uri: str, problems: int) -> None:
        self.uri, self.problems = uri, problems
        super().__init__(uri, problems)

    def __str__(self) -> str:
        count = "1 problem" if self.problems == 1 else f"{self.problems} problems"
        return (
            f"{count} in '{self.uri}'. `regrade score --intact` scores the intact shards of a damaged answer set. Its "
            "`regrade evaluate` command with `--heal` generates again what is lost."
        )
