"""An answer set with one of its scorings, as a repository holds both at a commit."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa

from regrade.answers.figures import figures_of
from regrade.answers.rows import row_keys
from regrade.answers.scorefile import ScoreFile
from regrade.answers.sets import AnswerSet
from regrade.records.rubrics.facts import JudgeRun, judge_run


@dataclass(frozen=True, slots=True)
class Result:
    """An answer set and one of its scorings."""

    answers: AnswerSet
    file: ScoreFile
    table: pa.Table | None = None
    """`SCORING_SCHEMA`, a row per generation; None: not read yet. A new scoring has it, a stored one has to be `read`."""

    @property
    def scores(self) -> pa.Table:
        """The table, read if it is not in memory.

        Raises:
            DamagedAnswersError: If it is damaged.
        """
        return self.answers.score_table(self.file) if self.table is None else self.table

    def read(self) -> Self:
        """Return the result with its table in memory; errors as in `scores`."""
        return replace(self, table=self.scores)

    @property
    def title(self) -> str:
        """Scorer, version and source hash."""
        return f"{self.file.scorer} v{self.file.version} {self.file.source_hash}"

    @property
    def headline(self) -> bool:
        """True if this scoring gives the benchmark's headline number."""
        return self.file.is_headline(self.answers.manifest.scorers)

    @property
    def figures(self) -> dict[str, float | None]:
        """Figures of the answers and the scoring, by name."""
        return figures_of(self.answers.manifest, self.file)

    @property
    def run(self) -> JudgeRun | None:
        """Facts of the judge run if the answers are a judge's verdicts on stored answers."""
        run = judge_run(self.answers.manifest.specification)
        return None if run is None or run.judged is None else run

    @property
    def url(self) -> str | None:
        """Page of the answers at their commit; None for a folder."""
        return self.answers.repository.url(self.answers.revision, self.answers.folder)

    def rows(self, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield columns of `GENERATION_SCHEMA` with `value`, `extracted` and `outcome`, in stored order.

        Only what the repository holds: questions that must not be published are None, even on a machine that has them.

        Args:
            columns: Names, with `sample_id` and `repeat`.

        Raises:
            DamagedAnswersError: If answers or scores are damaged.
        """
        table = self.scores
        scores = dict(zip(row_keys(table), table.to_pylist(), strict=True))
        for shard in self.answers.manifest.shards:
            for batch in self.answers.shard(shard, columns).batches():
                for key, row in zip(row_keys(batch), batch.to_pylist(), strict=True):
                    if key not in scores:
                        raise self.answers.other_rows(self.file)
                    score = {name: scores[key][name] for name in ("value", "extracted", "outcome")}
                    yield self.answers.public(row) | score
