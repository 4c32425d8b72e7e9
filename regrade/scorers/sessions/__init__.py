"""Interface of scorers that need more than the rows of a batch: child processes, a sandbox, or whole subsets at once."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import pyarrow as pa

from regrade.records.specification import Specification
from regrade.scorers.base import Scorer, TargetKind
from regrade.settings import ScorerName, ScoringOptions
from regrade.stats.named import Aggregate

BatchScore = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Returns a row of `SCORE_SCHEMA` or `SCORING_SCHEMA` for each row of a batch, in the same order."""

Unit = Literal["rows", "subset"]
"""Rows that are scored at once: some rows, or all rows of a subset."""


@dataclass(frozen=True, slots=True)
class ScoringContext:
    """Everything that decides scores beside the rows and the scorer's code."""

    options: ScoringOptions
    specification: Specification
    """Specification of the answer set."""


@runtime_checkable
class SessionScorer(Protocol):
    """Scorer that is opened before it scores, and closed afterwards; the first six members are those of `Scorer`.

    Two further members are optional. `passes` (default True): a value of 1 passes, so that pass@k means something.
    `needs_coverage` (default False): no headline number if fewer than `ScoringOptions.min_coverage` of the rows have a value.
    """

    name: ScorerName
    version: int
    description: str
    unparsed: str
    targets: TargetKind
    columns: tuple[str, ...]
    unit: Unit
    votes: bool
    """Equal extracted values are the same answer, so that the most frequent of several answers means something."""

    def environment(self, options: ScoringOptions) -> Mapping[str, str]:
        """Return versions and settings outside the scorer's code that decide scores, by name.

        They are stored with a scoring and are part of its label: another version is another scoring.

        Raises:
            SettingsError: If the scorer cannot run here, such as without a package or a sandbox.
        """

    def session(self, context: ScoringContext) -> AbstractContextManager[BatchScore]:
        """Open the scorer; the function that scores a batch is called from one thread.

        Raises:
            SettingsError: If the scorer cannot run here, or cannot score these answers.
        """

    def aggregates(self, scores: pa.Table, context: ScoringContext) -> Sequence[Aggregate]:
        """Return results that are no means over rows, such as a corpus BLEU; () without such results.

        Args:
            scores: `SCORING_SCHEMA`, all rows.
            context: As in `session`.
        """


AnyScorer = Scorer | SessionScorer
