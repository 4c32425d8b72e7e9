"""Judge a candidate in a flow; show the verdict on the run's page, in its final state and in MLflow."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from prefect.client.schemas.objects import State
from prefect.states import Completed

from regrade.answers.aliases import move_alias
from regrade.answers.manifest import Stopped
from regrade.answers.sets import AnswerSet, list_sets
from regrade.comparing.gate import gate as judge
from regrade.comparing.gate_report import GateReport, tag_candidate
from regrade.comparing.sides import Side
from regrade.results.display import current_display
from regrade.settings import GateSettings
from regrade.settings.errors import TrackingError
from regrade.text.text import shortened
from regrade.tracking.connection import default_tracking_uri, may_have_runs
from regrade.tracking.labels import move_alias_tag
from tasks.gate import show_baseline, show_verdict

logger = logging.getLogger("regrade.gate")
MAX_MESSAGE = 500
"""Longest message of a final state, in characters; the page shows it in one line."""


class NotFirstError(Exception):
    """Another evaluation has created the alias, which is therefore the baseline now."""


class _NewerError(Exception):
    """The alias names newer answers than those of the benchmark in the error's text."""


def judge_answers(
    sets: Sequence[AnswerSet], settings: GateSettings, stopped: Mapping[str, Stopped]
) -> GateReport:
    """Return the verdict on answer sets that were just scored.

    Args:
        sets: Answer sets of one model, at least one; at most one per benchmark.
        settings: Baseline and limits.
        stopped: Verdicts that were sure before all answers were there, by benchmark.
    """
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
    names_others = True

    def check(current: Mapping[str, AnswerSet]) -> None:
        nonlocal names_others
        ids = [answers.manifest.answer_set_id for answers in current.values()]
        names_others = any(answers.manifest.answer_set_id not in ids for answers in sets)
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
    _tag(uri, "alias", lambda: move_alias_tag(uri, alias, moved.answer_sets))
    since = "now" if names_others else "already"
    moved_text = f"alias {alias} names {sets[0].manifest.specification.model.name} {since}"
    if not first:
        return moved_text
    created = f"baseline created: {moved_text}"
    show_baseline(created)
    return created


def announce(report: GateReport, answers: str, tracking_uri: str | None) -> None:
    """Show a verdict on the flow run's page and on the candidate's MLflow runs."""
    logger.info("%s", report.summary)
    current_display().judged(report)
    show_verdict(report)
    uri = tracking_uri or default_tracking_uri(answers)
    _tag(uri, "verdict", lambda: tag_candidate(uri, report))


def _tag(uri: str, what: str, tag: Callable[[], object]) -> None:
    """Tag runs in MLflow, unless none are tracked yet; only warn if that fails."""
    try:
        if may_have_runs(uri):
            tag()
    except TrackingError as error:
        logger.warning("the %s is not in MLflow: %s", what, error)


def completed(message: str, result: object) -> State[Any]:
    """Final state of the flow run with the result or the verdict as its message; completed even on a regression."""
    return Completed(message=shortened(message, MAX_MESSAGE), data=result)
