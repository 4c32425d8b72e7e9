"""Artifacts on a flow run's page: results, scorer changes, comparisons and verdicts."""

import base64
import logging
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    ArtifactFilterKey,
)
from prefect.runtime import flow_run
from prefect.settings import PREFECT_UI_ENABLED
from pydantic import BaseModel, ValidationError

from regrade.comparing.gate_report import GateReport
from regrade.orchestration.optional import optional
from regrade.results.page import blocks
from regrade.results.results import Evaluation
from regrade.results.tables import headline, short_headline
from regrade.scoring import diff_text
from regrade.scoring.diff import Diff
from regrade.settings.errors import OperationError
from regrade.stats.charts import DRAWING_ERRORS, headline_chart
from regrade.stats.drawing import Bar
from regrade.text.markdown import escape, markdown
from regrade.text.text import shortened
from regrade.tracking.process import TrackingProcessError, call_in_process

logger = logging.getLogger("regrade.report")
RESULT_KEY = "result"
METRICS_KEY = "metrics"
PAGE_KEY = "gate"
REPORT_KEY = "gate-report"
BASELINE_KEY = "baseline"
COMPARISON_KEY = "comparison"
PLAN_KEY = "plan"
PLAN_REPORT_KEY = "plan-report"
SWEEP_KEY = "sweep"
TUNING_KEY = "tuning"
NOISE_KEY = "noise"
RESULT_KEYS = (RESULT_KEY, SWEEP_KEY, TUNING_KEY, PLAN_KEY, NOISE_KEY)
"""Pages with the result of a flow run, of which each flow writes one."""
_FENCE = "```"


def report(evaluation: Evaluation) -> None:
    """Show the results with links on the flow run's page, with a plot if Prefect shows pages; store the headline metrics."""
    seen = bool(evaluation.answer_sets) and PREFECT_UI_ENABLED.value()
    plot = accuracy_plot(evaluation) if seen else None
    show(RESULT_KEY, markdown(blocks(evaluation, plot)), escape(headline(evaluation)))
    _show_metrics(evaluation)


def _show_metrics(evaluation: Evaluation) -> None:
    """Store the headline metrics as a table artifact, which `regrade trigger --json` reads."""
    rows = [
        {"benchmark": answers.benchmark, "model": answers.model, "scorer": score.scorer}
        | {name: value for name, value in score.metrics.items() if value is not None}
        for answers in evaluation.answer_sets
        for score in answers.scores
        if score.headline
    ]
    if not rows:
        return
    with optional(logger, f"{METRICS_KEY} not shown in Prefect"):
        create_table_artifact(rows, key=METRICS_KEY, description="Headline metrics, for programs")


def report_diffs(diffs: Sequence[Diff]) -> None:
    """Show the effect of changed scorers, if any."""
    if diffs:
        description = "The scorer changed, the answers did not: changed scores"
        pages = [block for diff in diffs for block in diff_text.blocks(diff)]
        show("diff", markdown(pages), description)


def show(key: str, markdown: str, description: str) -> None:
    """Show a markdown artifact on the flow run's page; log a warning if that fails."""
    with optional(logger, f"{key} not shown in Prefect"):
        create_markdown_artifact(markdown, key=key, description=description)


def accuracy_plot(evaluation: Evaluation) -> str | None:
    """Return a small bar chart of the headline accuracies as a `data:` URI; None if drawing fails."""
    bars = []
    for answers in evaluation.answer_sets:
        for score in answers.scores:
            accuracy, low, high = (
                score.metrics[key] for key in ("accuracy", "accuracy_low", "accuracy_high")
            )
            shares = score.scale.unit == "%" and score.headline
            if shares and accuracy is not None and low is not None and high is not None:
                bars.append(Bar(f"{answers.benchmark}\n{answers.model}", accuracy, low, high))
    if not bars:
        return None
    try:
        image = call_in_process(headline_chart, bars)
    except (TrackingProcessError, *DRAWING_ERRORS) as error:
        logger.warning("no plot: %s", error)
        return None
    return "data:image/png;base64," + base64.b64encode(image).decode()


def read_report(client: SyncPrefectClient, flow_run_id: UUID | str) -> GateReport | None:
    """Return the verdict of a flow run, or None if the run has written none (yet).

    Raises:
        OperationError: If the verdict has the format of another version of regrade.
    """
    data = newest_artifact(client, UUID(str(flow_run_id)), REPORT_KEY)
    if data is None:
        return None
    text = str(data).partition(_FENCE)[2].partition(_FENCE)[0].removeprefix("json")
    try:
        return GateReport.model_validate_json(text)
    except ValidationError as error:
        raise OperationError(
            f"Flow run {flow_run_id} wrote a verdict that this regrade cannot read: use the same version on both "
            f"sides ({error.errors()[0]['msg']})."
        ) from error


def newest_artifact(client: SyncPrefectClient, flow_run_id: UUID, key: str) -> Any:  # noqa: ANN401 - any JSON
    """Return the data of a flow run's newest artifact with this key, or None."""
    artifacts = client.read_artifacts(
        artifact_filter=ArtifactFilter(
            flow_run_id=ArtifactFilterFlowRunId(any_=[flow_run_id]),
            key=ArtifactFilterKey(any_=[key]),
        )
    )
    return max(artifacts, key=lambda artifact: str(artifact.created)).data if artifacts else None


def as_artifact(report: BaseModel) -> str:
    """Return the report as a fenced block of JSON; backticks are escaped, so that no name ends the block."""
    document = report.model_dump_json(indent=1).replace("`", "\\u0060")
    return f"{_FENCE}json\n{document}\n{_FENCE}\n"


# Name a flow run by its result, so that the list of runs shows it.

MAX_NAME = 150
"""Longest name of a run, in characters."""
SECONDS = 10.0
"""Longest time for the request, in seconds."""


def name_run(evaluation: Evaluation) -> None:
    """Rename this flow run to `<model>: <benchmark> <accuracy>, ...`, after its verdict; only warn if the server fails.

    Prefect's page of a run shows no message on a narrow screen, only the name.
    """
    name = short_headline(evaluation)
    if not name:
        return
    if evaluation.gate is not None:
        name = f"{evaluation.gate.verdict}: {name}"
    with (
        optional(logger, "the run is not named by its result in Prefect"),
        get_client(sync_client=True, httpx_settings={"timeout": SECONDS}) as client,
    ):
        client.update_flow_run(flow_run.id, name=shortened(name, MAX_NAME))
