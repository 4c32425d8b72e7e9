"""Judge a candidate in a flow; show the verdict on the run's page, in its final state and in MLflow."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from prefect.client.schemas.objects import State
from prefect.states import Completed

from regrade.answers.aliases import move_alias, read_alias
from regrade.answers.manifest import Stopped
from regrade.answers.opening import open_repository
from regrade.answers.sets import AnswerSet, list_sets
from regrade.comparing.gate import check_comparable, shown_beforehand
from regrade.comparing.gate import gate as judge
from regrade.comparing.gate_report import GateReport, tag_candidate
from regrade.comparing.sides import Side, find_side
from regrade.settings import JUDGE_PREFIX, GateSettings
from regrade.settings.errors import SettingsError, TrackingError
from regrade.tracking.connection import default_tracking_uri, may_have_runs
from regrade.tracking.labels import move_alias_tag
from tasks.gate import show_baseline, show_verdict
from tasks.work import Work

logger = logging.getLogger("regrade.gate")
MAX_MESSAGE = 500
"""Longest message of a final state, in characters; the page shows it in one line."""


class NotFirstError(Exception):
    """Another evaluation has created the alias, which is therefore the baseline now."""


class _NewerError(Exception):
    """The alias names newer answers than those of the benchmark in the error's text."""


def check_baseline(
    settings: GateSettings, answers: str, benchmarks: Sequence[str], limit: int | None = None
) -> None:
    """Fail early if the baseline does not exist, or has too few questions for any model to pass; log what they can show.

    Args:
        settings: Baseline and limits.
        answers: Repository of the answers to judge.
        benchmarks: Benchmarks to judge.
        limit: Most questions of each benchmark that are evaluated. None: all.

    Raises:
        SettingsError: If nothing is stored yet, or not even an unchanged model would pass.
        RepositoryError: If the repository of the baseline does not exist, or no answer set matches.
        DamagedAnswersError: If the matching answer set is damaged.
    """
    own = settings.base_answers is None
    repository = open_repository(settings.base_answers or answers, create=False, empty=own)
    if own and repository.head() is None:
        raise SettingsError(
            f"There is no baseline '{settings.baseline}' yet: nothing is stored in '{repository.uri}'. Add `--promote`, which "
            "makes the first run the baseline, or evaluate a model without a gate and name it with `regrade promote`."
        )
    side = find_side(settings.baseline, repository.uri, benchmarks)
    questions = {
        name: min(sets.manifest.n_samples, limit or sets.manifest.n_samples)
        for name, sets in side.sets.items()
        if not name.startswith(JUDGE_PREFIX)
    }
    for line in shown_beforehand(settings, questions):
        logger.info("%s", line)


def check_planned(settings: GateSettings, answers: str, works: Sequence[Work]) -> None:
    """Fail before an engine starts if planned answers could not be compared with the baseline.

    Raises:
        NotComparableError: If more than the model differs, or too few questions are the same.
    """
    names = [work.plan.specification.benchmark.name for work in works]
    side = find_side(settings.baseline, settings.base_answers or answers, names)
    pairs = zip(names, works, strict=True)
    check_comparable(
        (
            (side.sets[name].manifest, work.answers.manifest)
            for name, work in pairs
            if name in side.sets
        ),
        settings,
    )


def gate_answers(
    sets: Sequence[AnswerSet],
    settings: GateSettings,
    tracking_uri: str | None,
    stopped: Mapping[str, Stopped] | None = None,
) -> GateReport:
    """Judge answer sets that were just scored, show the verdict and return it; see `judge_answers` and `announce`."""
    report = judge_answers(sets, settings, stopped)
    announce(report, sets[0].repository.uri, tracking_uri)
    return report


def judge_answers(
    sets: Sequence[AnswerSet],
    settings: GateSettings,
    stopped: Mapping[str, Stopped] | None = None,
) -> GateReport:
    """Return the verdict on answer sets that were just scored.

    Args:
        sets: Answer sets of one model, at least one; at most one per benchmark.
        settings: Baseline and limits.
        stopped: Verdicts that were sure before all answers were there, by benchmark.
    """
    stopped = stopped or {}
    repository = sets[0].repository
    head = repository.head() or sets[0].revision  # holds the new scores
    by_name = {answers.manifest.specification.benchmark.name: answers for answers in sets}
    scored = {
        name: list_sets(repository, head, answer_set_id=answers.manifest.answer_set_id)[0]
        for name, answers in by_name.items()
        if name not in stopped
    }
    model = sets[0].manifest.specification.model.name
    side = Side(model, scored, one_set=False)
    return judge(side, settings, answers=repository.uri, benchmarks=tuple(by_name), stopped=stopped)


def is_first(settings: GateSettings, answers: str, benchmarks: Sequence[str]) -> bool:
    """Return True if the alias to move names no answers to these benchmarks yet, so that nothing can be compared."""
    if not settings.promote:
        return False
    repository = open_repository(answers, create=False, empty=True)
    head = repository.head()
    alias = None if head is None else read_alias(repository, head, settings.baseline)
    return alias is None or alias.answer_sets.keys().isdisjoint(benchmarks)


def promote(
    sets: Sequence[AnswerSet], alias: str, tracking_uri: str | None, *, first: bool = False
) -> str:
    """Move an alias to complete answer sets, unless it names newer ones; return a sentence about it.

    A run that ends late must not move the alias back to an older revision.

    Args:
        sets: Answer sets of one model, at most one per benchmark.
        alias: Name of the alias.
        tracking_uri: MLflow server or database. None: the worker's default.
        first: The answers were not compared, because the alias named none to their benchmarks. The run's page then says
            that the baseline was created.

    Raises:
        NotFirstError: If `first`, and the alias names such answers now; it is not moved.
    """
    repository = sets[0].repository
    if incomplete := [answer_set for answer_set in sets if answer_set.manifest.state != "complete"]:
        return (
            f"alias {alias} not moved: {incomplete[0].manifest.specification.title} is incomplete"
        )

    benchmarks = [answers.manifest.specification.benchmark.name for answers in sets]

    def check(current: Mapping[str, AnswerSet]) -> None:
        if first and not current.keys().isdisjoint(benchmarks):
            raise NotFirstError(alias)
        for answers in sets:
            specification = answers.manifest.specification
            known = current.get(specification.benchmark.name)
            if known is not None and known.manifest.created_at > answers.manifest.created_at:
                raise _NewerError(specification.title)

    try:
        moved, _ = move_alias(repository, alias, sets, check)
    except _NewerError as error:
        return f"alias {alias} not moved: it names newer answers than those of {error}"
    uri = tracking_uri or default_tracking_uri(repository.uri)
    try:
        if may_have_runs(uri):
            move_alias_tag(uri, alias, moved.answer_sets)
    except TrackingError as error:
        logger.warning("the alias is not in MLflow: %s", error)
    moved_text = f"alias {alias} names {sets[0].manifest.specification.model.name} now"
    if not first:
        return moved_text
    created = f"baseline created: {moved_text}"
    show_baseline(created)
    return created


def announce(report: GateReport, answers: str, tracking_uri: str | None) -> None:
    """Show a verdict on the flow run's page and on the candidate's MLflow runs."""
    logger.info("%s", report.summary)
    show_verdict(report)
    uri = tracking_uri or default_tracking_uri(answers)
    if not may_have_runs(uri):  # the runs are not tracked yet
        return
    try:
        tag_candidate(uri, report)
    except TrackingError as error:
        logger.warning("the verdict is not in MLflow: %s", error)


def completed(message: str, result: object) -> State[Any]:
    """Final state of the flow run with the result or the verdict as its message; completed even on a regression."""
    if len(message) > MAX_MESSAGE:
        message = f"{message[: MAX_MESSAGE - 1]}…"
    return Completed(message=message, data=result)
