"""Gating in a flow: the verdict on the flow run's page, in MLflow, and as the message of its final state."""

import logging
from collections.abc import Sequence
from typing import Any

from prefect.client.schemas.objects import State
from prefect.states import Completed

from regrade.answers.sets import AnswerSet, list_sets
from regrade.comparing.gate import gate as judge
from regrade.comparing.gate_report import GateReport, tag_candidate
from regrade.comparing.sides import Side, find_side
from regrade.errors import TrackingError
from regrade.settings import GateSettings
from regrade.tracking.connection import default_tracking_uri, may_have_runs
from tasks.gate import show_verdict

logger = logging.getLogger("regrade.gate")
MAX_MESSAGE = 500
"""Characters of a state's message: one line on the page."""


def check_baseline(settings: GateSettings, answers: str, benchmarks: Sequence[str]) -> None:
    """Fail early if the baseline does not exist.

    Raises:
        RepositoryError: If there is no such repository, or nothing in it fits.
        DamagedAnswersError: If what fits is damaged.
    """
    find_side(settings.baseline, settings.base_answers or answers, benchmarks)


def gate_answers(
    sets: Sequence[AnswerSet], settings: GateSettings, tracking_uri: str | None
) -> GateReport:
    """Return the verdict on answer sets that were just scored, after showing it everywhere.

    Args:
        sets: Of one model, at least one; at most one of each benchmark.
        settings: What they are measured against.
        tracking_uri: MLflow server or database. None: the worker's default.
    """
    repository = sets[0].repository
    head = repository.head() or sets[0].revision  # where the scores are
    found = {
        one.manifest.specification.benchmark.name: list_sets(
            repository, head, answer_set_id=one.manifest.answer_set_id
        )[0]
        for one in sets
    }
    model = sets[0].manifest.specification.model.name
    side = Side(model, found, one_set=False)
    report = judge(side, settings, answers=repository.uri, benchmarks=tuple(found))
    announce(report, repository.uri, tracking_uri)
    return report


def announce(report: GateReport, answers: str, tracking_uri: str | None) -> None:
    """Put a verdict on the flow run's page and on the candidate's runs in MLflow."""
    logger.info("%s", report.summary)
    show_verdict(report)
    uri = tracking_uri or default_tracking_uri(answers)
    if not may_have_runs(uri):  # nothing was ever tracked
        return
    try:
        tag_candidate(uri, report)
    except TrackingError as error:
        logger.warning("the verdict is not in MLflow: %s", error)


def completed(report: GateReport, result: object) -> State[Any]:
    """Return the final state of a flow run: a regression is no crash, but its message names it."""
    message = report.summary
    if len(message) > MAX_MESSAGE:
        message = f"{message[: MAX_MESSAGE - 1]}…"
    return Completed(message=message, data=result)
