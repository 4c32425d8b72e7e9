"""Judge a candidate in a flow; show the verdict on the run's page, in its final state and in MLflow."""

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
"""Longest message of a final state, in characters; the page shows it in one line."""


def check_baseline(settings: GateSettings, answers: str, benchmarks: Sequence[str]) -> None:
    """Fail early if the baseline does not exist.

    Raises:
        RepositoryError: If the repository does not exist, or no answer set matches.
        DamagedAnswersError: If the matching answer set is damaged.
    """
    find_side(settings.baseline, settings.base_answers or answers, benchmarks)


def gate_answers(
    sets: Sequence[AnswerSet], settings: GateSettings, tracking_uri: str | None
) -> GateReport:
    """Judge answer sets that were just scored, show the verdict and return it.

    Args:
        sets: Answer sets of one model, at least one; at most one per benchmark.
        settings: Baseline and limits.
        tracking_uri: MLflow server or database. None: the worker's default.
    """
    repository = sets[0].repository
    head = repository.head() or sets[0].revision  # holds the new scores
    scored = {
        answers.manifest.specification.benchmark.name: list_sets(
            repository, head, answer_set_id=answers.manifest.answer_set_id
        )[0]
        for answers in sets
    }
    model = sets[0].manifest.specification.model.name
    side = Side(model, scored, one_set=False)
    report = judge(side, settings, answers=repository.uri, benchmarks=tuple(scored))
    announce(report, repository.uri, tracking_uri)
    return report


def announce(report: GateReport, answers: str, tracking_uri: str | None) -> None:
    """Show a verdict on the flow run's page and on the candidate's MLflow runs."""
    logger.info("%s", report.summary)
    show_verdict(report)
    uri = tracking_uri or default_tracking_uri(answers)
    if not may_have_runs(uri):  # nothing has been tracked yet
        return
    try:
        tag_candidate(uri, report)
    except TrackingError as error:
        logger.warning("the verdict is not in MLflow: %s", error)


def completed(report: GateReport, result: object) -> State[Any]:
    """Final state of the flow run: completed even on a regression, which its message reports."""
    message = report.summary
    if len(message) > MAX_MESSAGE:
        message = f"{message[: MAX_MESSAGE - 1]}…"
    return Completed(message=message, data=result)
