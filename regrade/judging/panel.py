"""Several judges of the same answers: their verdicts beside each other, combined, and how far they agree."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from regrade.answers.sets import AnswerSet
from regrade.errors import SettingsError
from regrade.judging.readings import Verdict, run_of, verdicts
from regrade.judging.stored import is_unchanged
from regrade.rubrics.facts import JudgeRun
from regrade.settings import ScoringOptions
from regrade.stats.estimates import clustered_standard_error

Rule = Literal["majority", "mean"]
Key = tuple[str, int]
"""Sample id and repeat of a judged answer."""
_FLOOR = ScoringOptions().min_coverage


@dataclass(frozen=True, slots=True)
class PanelRow:
    """The verdicts of all judges on an answer."""

    sample_id: str
    repeat: int
    values: Mapping[str, float]
    """Value by judge; a judge without a verdict is missing."""
    combined: float | None
    """None: no judge has a verdict, or several values have the same number of votes."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Two judges on the answers on which both have a verdict."""

    judges: tuple[str, str]
    equal: float
    """Share of equal values."""
    n: int


@dataclass(frozen=True, slots=True)
class Panel:
    """Several judges of the same answers."""

    judges: tuple[str, ...]
    rule: Rule
    rows: tuple[PanelRow, ...]
    agreements: tuple[Agreement, ...]
    unanimous: float | None
    """Share of the answers with a verdict of all judges on which all of these are equal; None without such answers."""
    low: float
    high: float
    """Scale of the values."""
    min_coverage: float
    """Smallest share of rows with a combined value for a mean."""

    @property
    def values(self) -> list[float]:
        """Combined values."""
        return [row.combined for row in self.rows if row.combined is not None]

    @property
    def mean(self) -> float | None:
        """Mean of the combined values; None if fewer rows than `min_coverage` have one: draws are not like the other answers."""
        found = self.values
        if not found or len(found) < self.min_coverage * len(self.rows):
            return None
        return sum(found) / len(found)

    @property
    def stderr(self) -> float | None:
        """Standard error of the mean, clustered by question; None without a mean, and below two questions."""
        known = [row for row in self.rows if row.combined is not None]
        ids = {sample: number for number, sample in enumerate({row.sample_id for row in known})}
        if self.mean is None or len(ids) < 2:
            return None
        return clustered_standard_error(
            np.array(self.values), np.array([ids[row.sample_id] for row in known])
        )


def panel(
    judge_sets: Sequence[AnswerSet],
    rule: Rule = "majority",
    *,
    without: Sequence[str] = (),
    min_coverage: float = _FLOOR,
) -> Panel:
    """Combine the verdicts of several judges; one may be left out without asking the others again.

    Args:
        judge_sets: Judge runs on the same answers by the same rubric.
        rule: `majority`: the value that most judges give, none in a draw. `mean`: the mean of their values.
        without: Names of judges to leave out.
        min_coverage: Smallest share of the answers with a combined value for which there is a mean.

    Raises:
        SettingsError: If fewer than two judges are left, or they did not judge the same answers by the same rubric.
        DamagedAnswersError: If stored verdicts cannot be read.
    """
    named = {name_of(judge_set): judge_set for judge_set in judge_sets}
    if len(named) < len(judge_sets):
        raise SettingsError("A judge is given twice: name one run of each judge.")
    if unknown := set(without) - set(named):
        raise SettingsError(f"'{min(unknown)}' is none of the judges ({', '.join(named)}).")
    kept = {name: judge_set for name, judge_set in named.items() if name not in without}
    if len(kept) < 2:
        raise SettingsError(f"A panel needs two judges or more, got {', '.join(kept) or 'none'}.")
    runs = {name: run_of(judge_set) for name, judge_set in kept.items()}
    first = next(iter(runs.values()))
    for name, run in runs.items():
        if _question(run) != _question(first):
            raise SettingsError(
                f"Judge '{name}' was asked about other answers, or by another rubric, than '{next(iter(runs))}'. "
                "Leave one of them out (`--without`)."
            )
    read = {name: verdicts(judge_set) for name, judge_set in kept.items()}
    by_judge = {name: _by_answer(found) for name, found in read.items()}
    keys = sorted({(one.sample_id, one.repeat) for found in read.values() for one in found})
    rows = tuple(_row(key, by_judge, rule) for key in keys)
    whole = [row for row in rows if len(row.values) == len(kept)]
    return Panel(
        judges=tuple(kept),
        rule=rule,
        rows=rows,
        agreements=tuple(_agreements(rows, tuple(kept))),
        unanimous=_share(len(set(row.values.values())) == 1 for row in whole) if whole else None,
        low=first.rubric.low,
        high=first.rubric.high,
        min_coverage=min_coverage,
    )


def one_run_each(judge_sets: Sequence[AnswerSet], judged: AnswerSet) -> list[AnswerSet]:
    """Return a run of each judge on exactly these answers: the most questions, of equal ones the newest.

    Runs by the rubric, criteria and baseline that most judges have come first. A judge without one gives another run, which
    `panel` refuses by its name. Runs on answers that were changed since are left out.

    Args:
        judge_sets: Judge runs by rubrics of one name, oldest first.
        judged: The judged answers.
    """
    runs = {judge_set.folder: run_of(judge_set) for judge_set in judge_sets}
    fitting = [
        judge_set
        for judge_set in judge_sets
        if (of := runs[judge_set.folder].judged) is not None and is_unchanged(judged, of)
    ]
    fitting.sort(key=lambda one: (one.manifest.n_samples, one.manifest.state == "complete"))
    of_each = {name_of(judge_set): judge_set for judge_set in fitting}
    groups: list[tuple[tuple[object, ...], dict[str, AnswerSet]]] = []
    for judge_set in fitting:
        question = _question(runs[judge_set.folder])
        group = next((found for asked, found in groups if asked == question), None)
        if group is None:
            groups.append((question, group := {}))
        group[name_of(judge_set)] = judge_set
    most = max((group for _, group in reversed(groups)), key=len, default={})
    return [most.get(name, judge_set) for name, judge_set in of_each.items()]


def name_of(judge_set: AnswerSet) -> str:
    """Return the name of a run's judge in a panel."""
    model = judge_set.manifest.specification.model
    return f"{model.name}@{model.revision[:12]}"


def _question(run: JudgeRun) -> tuple[object, ...]:
    return run.rubric.sha256, run.judged, run.baseline, run.criteria


def _by_answer(found: Sequence[Verdict]) -> dict[Key, float]:
    """Return the mean value of a judge's verdicts on each answer: of its repeats, and of both orders of a pair."""
    values: dict[Key, list[float]] = {}
    for verdict in found:
        if verdict.value is not None:
            values.setdefault((verdict.sample_id, verdict.repeat), []).append(verdict.value)
    return {key: sum(given) / len(given) for key, given in values.items()}


def _row(key: Key, by_judge: Mapping[str, Mapping[Key, float]], rule: Rule) -> PanelRow:
    values = {judge: found[key] for judge, found in by_judge.items() if key in found}
    return PanelRow(*key, values, _combined(list(values.values()), rule))


def _combined(values: Sequence[float], rule: Rule) -> float | None:
    if not values:
        return None
    if rule == "mean":
        return sum(values) / len(values)
    (value, votes), *rest = Counter(values).most_common(2)
    return None if rest and rest[0][1] == votes else value


def _agreements(rows: Sequence[PanelRow], judges: Sequence[str]) -> Iterator[Agreement]:
    for one, other in combinations(judges, 2):
        both = [row.values for row in rows if one in row.values and other in row.values]
        if both:
            yield Agreement((one, other), _share(v[one] == v[other] for v in both), len(both))


def _share(flags: Iterator[bool]) -> float:
    found = list(flags)
    return sum(found) / len(found)
