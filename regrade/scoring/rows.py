"""Score rows of an answer set that is still being generated, as its scoring will when they are stored."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa

from regrade.records.columns import GENERATION_SCHEMA
from regrade.records.specification import Specification
from regrade.scorers import JUDGE, load_scorer
from regrade.scorers.base import SHARED_COLUMNS
from regrade.scorers.sessions import ScoringContext, SessionScorer
from regrade.scoring.batches import PROMPTS_READ, next_question, score_batch, with_next_question
from regrade.scoring.score import ONE_AT_A_TIME
from regrade.settings import ScoringOptions
from regrade.settings.errors import SettingsError
from regrade.stats.estimates import FloatArray
from regrade.stats.metrics import score_values


class RowScoring:
    """A scorer of single rows, which come before their answer set is complete."""

    def __init__(
        self,
        scorer: str,
        specification: Specification,
        options: ScoringOptions,
        *,
        withheld: bool = False,
    ) -> None:
        """Load the scorer.

        Args:
            scorer: Its name.
            specification: The answer set.
            options: How scorers run that need processes or a sandbox.
            withheld: Its questions are; their prompts are not read to find where an answer ends.

        Raises:
            SettingsError: If it cannot score single rows.
            UnknownNameError: If it is not installed.
        """
        self._scorer = load_scorer(scorer)
        self._context = ScoringContext(options, specification)
        self._withheld, self._prompts = withheld, list[str | None]()
        if scorer == JUDGE:
            raise SettingsError("a judge model grades them once they are all there")
        if isinstance(self._scorer, SessionScorer) and self._scorer.unit != "rows":
            raise SettingsError(f"scorer '{scorer}' needs all answers of a subset at once")

    def values(self, rows: Sequence[Mapping[str, Any]]) -> FloatArray:
        """Return the value of each row of `GENERATION_SCHEMA`, as a share; NaN if it has none.

        Raises:
            RegradeError: If the scorer cannot score these answers, or what it needs fails.
        """
        scorer, specification = self._scorer, self._context.specification
        columns = list(dict.fromkeys([*SHARED_COLUMNS, *scorer.columns]))
        table = pa.RecordBatch.from_pylist([*rows], schema=GENERATION_SCHEMA).select(columns)
        if not self._withheld:
            missing = PROMPTS_READ - len(self._prompts)
            self._prompts += [row["prompt"] for row in rows[:missing]]
        known = next_question(specification, lambda: self._prompts)
        (batch,) = with_next_question([table], specification.prompt.format, known)
        with ExitStack() as stack:
            if isinstance(scorer, SessionScorer):
                stack.enter_context(ONE_AT_A_TIME)
                score = stack.enter_context(scorer.session(self._context))
            else:
                score = scorer.score
            scores = score_batch(score, scorer.columns, batch)
        return np.asarray(score_values(pa.Table.from_batches([scores])), np.float64)
