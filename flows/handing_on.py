"""Add a report to hand on to each evaluated model's run in MLflow."""

import logging

from flows.scoring import Scorings
from regrade.errors import RegradeError
from regrade.report.gathering import Request
from regrade.report.tracked import ARTIFACT, log_report
from regrade.settings import GateSettings
from regrade.tracking.connection import artifact_url, default_tracking_uri
from regrade.tracking.process import call_in_process

logger = logging.getLogger("regrade.report")
MAX_ROWS = 200_000
"""Most answers of a model from which examples are chosen; beyond it, the report has only numbers."""


def hand_on(scorings: Scorings, tracking_uri: str | None, gate: GateSettings | None) -> None:
    """Add a report to the run of each model, compared with the gate's baseline if there is one.

    A report that cannot be made is logged: the result is complete without it.

    Args:
        scorings: Published and tracked scorings.
        tracking_uri: MLflow server or database. None: the default for the repository.
        gate: Baseline of the evaluation. None: no comparison.
    """
    repository = scorings.sets[0].answers.repository.uri
    uri = tracking_uri or default_tracking_uri(repository)
    by_run: dict[str, list[str]] = {}
    for answer_set_id, run_id in scorings.tracked.parents.items():
        by_run.setdefault(run_id, []).append(answer_set_id)
    rows = {item.answer_set_id: item.answers.manifest.rows for item in scorings.sets}
    for run_id, ids in by_run.items():
        request = Request(
            answers=repository,
            names=tuple(ids),
            base=None if gate is None else gate.baseline,
            base_answers=None if gate is None else gate.base_answers,
            allow=() if gate is None else gate.allow,
            examples=200 if sum(rows[answer_set_id] for answer_set_id in ids) <= MAX_ROWS else 0,
        )
        try:
            call_in_process(log_report, uri, run_id, request)
        except RegradeError as error:
            logger.warning("no report in MLflow: %s", error)
            continue
        for answer_set_id in ids:
            page = artifact_url(scorings.tracked.urls.get(answer_set_id), ARTIFACT)
            if page is not None:
                scorings.report_urls[answer_set_id] = page
