"""Several judges of the same answers: their verdicts side by side and combined, and their agreement."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Literal

import numpy as np

from regrade.answers.base import Repository
from regrade.answers.rows import RowKey
from regrade.answers.sets import AnswerSet
from regrade.judging.labels.items import nothing_to_judge, values_by_answer
from regrade.judging.readings import run_of
from regrade.judging.stored import answer_set_at, is_unchanged, judge_runs, known_run
from regrade.records.rubrics.facts import JudgedSet, JudgeRun
from regrade.scorers import JUDGE
from regrade.scoring.score import score_answers
from regrade.settings import ScoringOptions, StrictModel
from regrade.settings.errors import SettingsError
from regrade.settings.turn_ids import question_numbers
from regrade.stats.estimates import clustered_standard_error

Rule = Literal["majority", "mean"]
"""`majority`: the value that most judges give, or no value in a draw. `mean`: the mean of their values."""
RULES: tuple[Rule, ...] = ("majority", "mean")
_FLOOR = ScoringOptions().min_coverage


@dataclass(frozen=True, slots=True)
class PanelRow:
    """The verdicts of all judges on an answer."""

    sample_id: str
    repeat: int
    values: Mapping[str, float]
    """Value by judge; a judge without a verdict is missing."""

    def combined(self, rule: Rule) -> float | None:
        """Return the value by a rule; None if no judge has a verdict, or several values have the same number of votes."""
        values = list(self.values.values())
        if not values:
            return None
        if rule == "mean":
            return fmean(values)
        (value, votes), *rest = Counter(values).most_common(2)
        return None if rest and rest[0][1] == votes else value


class JudgesAgree(StrictModel):
    """Two judges on the answers on which both have a verdict."""

    judges: tuple[str, str]
    equal: float
    """Share of equal values."""
    n: int


@dataclass(frozen=True, slots=True)
class Panel:
    """Several judges of the same answers."""

    judges: tuple[str, ...]
    run: JudgeRun
    """Facts of all their runs: rubric, judged answers, baseline and criteria."""
    rows: tuple[PanelRow, ...]
    """The answers that a judge could be asked about, with a verdict or without."""
    nothing_to_judge: int
    """Number of the other answers, such as failed requests."""
    agreements: tuple[JudgesAgree, ...]
    unanimous: float | None
    """Share of equal values among the answers with a verdict of all judges; None without such answers."""
    min_coverage: float
    """Smallest share of all answers with a combined value for a mean."""

    @property
    def whole(self) -> int:
        """Number of answers with a verdict of all judges."""
        return sum(len(row.values) == len(self.judges) for row in self.rows)

    def values(self, rule: Rule) -> list[float]:
        """Return the combined values."""
        return [value for row in self.rows if (value := row.combined(rule)) is not None]

    def mean(self, rule: Rule) -> float | None:
        """Return the mean of the combined values; None if fewer than `min_coverage` of all answers have one."""
        found = self.values(rule)
        # Rows without draws are no random part of all rows.
        answers = len(self.rows) + self.nothing_to_judge
        if not found or len(found) < self.min_coverage * answers:
            return None
        return fmean(found)

    def stderr(self, rule: Rule) -> float | None:
        """Return the standard error of the mean, clustered by question; None without a mean, or with one question."""
        known = [row for row in self.rows if row.combined(rule) is not None]
        numbers = np.array(question_numbers(row.sample_id for row in known), np.int64)
        if self.mean(rule) is None or numbers.max() < 1:
            return None
        return clustered_standard_error(np.array(self.values(rule)), numbers)


def panel(
    judge_sets: Sequence[AnswerSet], *, without: Sequence[str] = (), min_coverage: float = _FLOOR
) -> Panel:
    """Combine the verdicts of several judges, all or some of them.

    Args:
        judge_sets: Judge runs on the same answers by the same rubric.
        without: Names of judges to leave out, with or without their revision.
        min_coverage: Smallest share of the answers with a combined value for which there is a mean.

    Raises:
        SettingsError: If fewer than two judges are left, or they did not judge the same answers by the same rubric.
        DamagedAnswersError: If stored verdicts cannot be read.
    """
    named = {name_of(judge_set): judge_set for judge_set in judge_sets}
    if len(named) < len(judge_sets):
        raise SettingsError("Two runs are of the same judge: name one run of each judge.")
    dropped = {name for name in named if {name, name.rpartition("@")[0]} & set(without)}
    known = dropped | {name.rpartition("@")[0] for name in dropped}
    if unknown := set(without) - known:
        raise SettingsError(f"'{min(unknown)}' is not one of the judges ({', '.join(named)}).")
    kept = {name: judge_set for name, judge_set in named.items() if name not in dropped}
    if len(kept) < 2:
        raise SettingsError(f"A panel needs two judges or more, got {', '.join(kept) or 'none'}.")
    runs = {name: run_of(judge_set) for name, judge_set in kept.items()}
    first = next(iter(runs.values()))
    for name, run in runs.items():
        if _question(run) != _question(first):
            raise SettingsError(
                f"Judge '{name}' judged other answers, or by another rubric, than '{next(iter(runs))}'. "
                "Leave one of them out (`--without`)."
            )
    found = {
        name: values_by_answer(runs[name], score_answers(judge_set, JUDGE).scores)
        for name, judge_set in kept.items()
    }
    keys = set().union(*found.values())
    nothing: set[RowKey] = set()
    if any(not any(of.get(key) for of in found.values()) for key in keys):
        nothing = keys & nothing_to_judge(next(iter(kept.values())), first)
    rows = tuple(
        PanelRow(*key, {judge: fmean(of[key]) for judge, of in found.items() if of.get(key)})
        for key in sorted(keys - nothing)
    )
    whole = [row for row in rows if len(row.values) == len(kept)]
    return Panel(
        judges=tuple(kept),
        run=first,
        rows=rows,
        nothing_to_judge=len(nothing),
        agreements=tuple(_agreements(rows, tuple(kept))),
        unanimous=_share(len(set(row.values.values())) == 1 for row in whole) if whole else None,
        min_coverage=min_coverage,
    )


def one_run_each(judge_sets: Sequence[AnswerSet], judged: AnswerSet) -> list[AnswerSet]:
    """Return a run of each judge on exactly these answers: the run with the most questions, or the newest of these.

    Runs by the rubric, criteria and baseline that most judges have come first. A judge without such a run is
    represented by another run, which `panel` refuses by name. Runs on answers that were changed since are left out.

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
    fitting.sort(
        key=lambda answers: (answers.manifest.n_samples, answers.manifest.state == "complete")
    )
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


def panels_at(
    repository: Repository, revision: str, judge_sets: Sequence[AnswerSet]
) -> list[tuple[Panel, list[AnswerSet]]]:
    """Return the panels to which judge runs belong: all runs on the same answers by the same rubric.

    Args:
        repository: Repository of the runs and of the judged answers.
        revision: Revision at which the other runs are looked up.
        judge_sets: Answer sets. Sets that are not judge runs, or whose judge is the only one, have no panel.

    Raises:
        DamagedAnswersError: If stored verdicts cannot be read.
    """
    wanted: list[tuple[object, JudgedSet, JudgedSet | None]] = []
    for judge_set in judge_sets:
        run = known_run(judge_set)
        if run is not None and run.judged is not None:
            asked = (_question(run), run.judged, run.baseline)
            if asked not in wanted:
                wanted.append(asked)
    if not wanted:
        return []
    known = list(judge_runs(repository, revision))
    found = []
    for question, of, baseline in wanted:
        runs = [answers for answers, run in known if _question(run) == question]
        if baseline is not None:
            other = answer_set_at(repository, revision, baseline.answer_set_id)
            if other is None or not is_unchanged(other, baseline):
                continue  # the other side's answers were changed
        judged = answer_set_at(repository, revision, of.answer_set_id)
        chosen = [] if judged is None else one_run_each(runs, judged)
        if len(chosen) > 1:
            found.append((panel(chosen), chosen))
    return found


def name_of(judge_set: AnswerSet) -> str:
    """Return the name of a run's judge in a panel; runs whose server does not tell its weights are told by name only."""
    model = judge_set.manifest.specification.model
    return f"{model.name}@{model.told_revision[:12]}"


def _question(run: JudgeRun) -> tuple[object, ...]:
    return run.rubric.sha256, run.judged, run.baseline, run.criteria


def _agreements(rows: Sequence[PanelRow], judges: Sequence[str]) -> Iterator[JudgesAgree]:
    for judge, other in combinations(judges, 2):
        both = [row.values for row in rows if judge in row.values and other in row.values]
        if both:
            equal = _share(values[judge] == values[other] for values in both)
            yield JudgesAgree(judges=(judge, other), equal=equal, n=len(both))


def _share(flags: Iterator[bool]) -> float:
    found = list(flags)
    return sum(found) / len(found)
