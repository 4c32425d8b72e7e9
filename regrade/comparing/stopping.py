"""Watch the answers of a candidate while they are generated, until the verdict against the baseline is sure."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from regrade.answers.manifest import Manifest, Stopped
from regrade.answers.sets import AnswerSet
from regrade.comparing.beforehand import accepted_drops
from regrade.comparing.comparison import common_scorer
from regrade.comparing.likeness import check_alike, differences
from regrade.comparing.pairing import MIN_COVERAGE, questions
from regrade.scorers import JUDGE
from regrade.scoring.rows import RowScoring
from regrade.scoring.score import score_answers
from regrade.settings import GateSettings, ScoringOptions
from regrade.settings.errors import SettingsError
from regrade.stats.estimates import FloatArray
from regrade.stats.scale import SHARES, percent
from regrade.stats.sequential import (
    SequentialTest,
    Sure,
    decided,
    final_rate,
    random_order,
    request_order,
    running_level,
)


@dataclass(frozen=True, slots=True)
class Baseline:
    """The baseline's answers to the questions of a benchmark."""

    answer_set_id: str
    values: Mapping[str, float]
    """Value of each question by sample id, a share of the scale; a mean over its repeats."""
    scorer: str
    """Scorer of both sides."""

    @classmethod
    def read(
        cls,
        base: AnswerSet,
        candidate: Manifest,
        sample_ids: Sequence[str],
        settings: GateSettings,
        options: ScoringOptions,
    ) -> "Baseline":
        """Score the baseline, after checking that it can be compared with the candidate while that is generated.

        Args:
            base: The baseline's answer set.
            candidate: Manifest of the candidate, without answers.
            sample_ids: Ids of its questions.
            settings: Limits of the verdict.
            options: How scorers run that need processes or a sandbox.

        Raises:
            SettingsError: If it cannot.
            NotComparableError: If more than the model differs.
            DamagedAnswersError: If the baseline is damaged.
        """
        title = candidate.specification.benchmark.name
        if JUDGE in candidate.scorers[:1]:
            raise cannot_stop(title, "a judge model grades the answers once they are all there")
        if candidate.specification.benchmark.converses:
            raise cannot_stop(title, "the turns of its conversations depend on each other")
        check_alike(differences(base.manifest, candidate)[0], settings.allow)
        scorer = common_scorer(base.manifest, candidate)
        scored = score_answers(base, scorer, options=options).read()
        if scored.file.scale != SHARES:
            raise cannot_stop(title, "its scores are no shares from 0 to 1")
        found = questions(scored)
        values = dict(zip(map(str, found.sample_id), found.value.tolist(), strict=True))
        shared = len(values.keys() & {*sample_ids})
        needed = _coverage(settings)
        if shared < needed * max(len(sample_ids), base.manifest.n_samples):
            raise cannot_stop(
                title,
                f"the baseline has values for {shared:,} of its {len(sample_ids):,} questions by their ids, and {percent(needed, None)} are "
                "needed",
            )
        return cls(base.manifest.answer_set_id, values, scorer)


def cannot_stop(benchmark: str, reason: str) -> SettingsError:
    """Return the error about a benchmark whose answers cannot be watched."""
    return SettingsError(
        f"Benchmark '{benchmark}' cannot stop when the verdict is sure: {reason}. Leave out `--stop-when-sure`, or the benchmark."
    )


def _coverage(settings: GateSettings) -> float:
    return MIN_COVERAGE if settings.min_coverage is None else settings.min_coverage / 100


class Watch:
    """Watches one answer set. Any thread may bring rows and look."""

    def __init__(
        self,
        baseline: Baseline,
        candidate: Manifest,
        sample_ids: Sequence[str],
        settings: GateSettings,
        options: ScoringOptions,
        *,
        tests: int,
    ) -> None:
        """Begin without answers.

        Args:
            baseline: The baseline's answers.
            candidate: Manifest of the candidate, without answers.
            sample_ids: Ids of its questions, in the order of the benchmark.
            settings: Limits of the verdict, and its error rate.
            options: How scorers run that need processes or a sandbox.
            tests: Benchmarks that are watched in the same run.

        Raises:
            SettingsError: If the scorer needs all answers at once.
        """
        specification = candidate.specification
        name = specification.benchmark.name
        try:
            self._scoring = RowScoring(
                baseline.scorer, specification, options, withheld=candidate.withheld
            )
        except SettingsError as error:
            raise cannot_stop(name, str(error)) from error
        self._baseline, self._repeats = baseline, specification.repeats
        self._places = random_order(candidate.answer_set_id, sample_ids)
        self._order = [sample_ids[place] for place in self._places]
        self._drop = accepted_drops(settings).get(name, settings.max_drop) / 100
        self._coverage = _coverage(settings)
        alpha = settings.error_rate / 100
        self._at_end = {"regression": final_rate(alpha) / tests, "pass": final_rate(alpha)}
        self._test = SequentialTest(self._drop, running_level(alpha, tests), running_level(alpha))
        self._new: deque[Mapping[str, Any]] = deque()
        self._waiting: dict[str, dict[int, Mapping[str, Any]]] = {}
        """Rows by sample id and repeat, of questions before which one is not answered."""
        self._next = 0
        """Place of the first question that lacks an answer."""
        self._changes: list[float] = []
        self._failed = False
        self._looking = Lock()

    def order(self, questions: int) -> list[int]:  # noqa: ARG002 - `Ordered`
        """Return the positions of the questions in the order in which they are asked."""
        return request_order(self._places)

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Take rows of `GENERATION_SCHEMA`, in any order."""
        self._new.extend(rows)

    def look(self) -> Stopped | None:
        """Score the answers whose predecessors in the random order are all there, and return the verdict once it is sure.

        Raises:
            RegradeError: If the answers cannot be scored; from then on, no verdict is sure.
        """
        with self._looking:
            return self._look()

    def _look(self) -> Stopped | None:
        if self._failed:
            return None
        self._failed = True  # unless the following succeeds
        if rows := self._taken():
            changes = self._scored(rows)
            self._changes += changes.tolist()
            self._test.add(changes)
        self._failed = False
        if self._next and len(self._changes) < self._coverage * self._next:
            return None
        verdict, asked = self._test.verdict, self._test.n
        if verdict is None:
            verdict, asked = self._certain(), len(self._changes)
        if verdict is None:
            return None
        return Stopped(
            verdict=verdict,
            questions=asked,
            of=len(self._order),
            baseline=self._baseline.answer_set_id,
        )

    def _taken(self) -> list[Mapping[str, Any]]:
        """Return the rows of the next questions in the random order that have all their answers."""
        while self._new:
            row = self._new.popleft()
            self._waiting.setdefault(row["sample_id"], {})[row["repeat"]] = row
        rows: list[Mapping[str, Any]] = []
        while self._next < len(self._order):
            answers = self._waiting.get(self._order[self._next], {})
            if len(answers) < self._repeats:
                break
            rows += self._waiting.pop(self._order[self._next]).values()
            self._next += 1
        return rows

    def _scored(self, rows: Sequence[Mapping[str, Any]]) -> FloatArray:
        """Return the changes of questions with a value on both sides, in the order of the rows; repeats are averaged."""
        found: dict[str, list[float]] = {}
        for row, value in zip(rows, self._scoring.values(rows).tolist(), strict=True):
            if not np.isnan(value) and row["sample_id"] in self._baseline.values:
                found.setdefault(row["sample_id"], []).append(min(max(value, 0.0), 1.0))
        return np.array(
            [
                sum(values) / len(values) - self._baseline.values[sample_id]
                for sample_id, values in found.items()
            ]
        )

    def _certain(self) -> Sure | None:
        """Return the verdict that no outcome of the rest could change, if all values are 0 or 1."""
        base = self._baseline.values
        left = [base[key] for key in self._order[self._next :] if key in base]
        if not {*self._changes} <= {-1.0, 0.0, 1.0} or not {*base.values()} <= {0.0, 1.0}:
            return None
        if self._repeats > 1 or not self._changes:
            return None
        return decided(
            self._changes.count(1.0),
            self._changes.count(-1.0),
            len(self._changes) + len(left),
            can_gain=left.count(0.0),
            can_lose=left.count(1.0),
            max_drop=self._drop,
            regression_level=self._at_end["regression"],
            pass_level=self._at_end["pass"],
        )
