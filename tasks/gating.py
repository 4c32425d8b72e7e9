"""The verdict of a gate on the flow run's page: a page for people, and JSON that comes back as a `GateReport`."""

import logging
from typing import TYPE_CHECKING
from uuid import UUID

import httpx
from prefect import task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.exceptions import PrefectException
from pydantic import ValidationError

from regrade.comparing.models import Comparisons
from regrade.comparing.text import comparisons_markdown
from regrade.gating.report import GateReport
from regrade.gating.text import gate_markdown
from regrade.report import escape

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

logger = logging.getLogger("regrade.gate")
PAGE_KEY = "gate"
REPORT_KEY = "gate-report"
COMPARISON_KEY = "comparison"
_FENCE = "```"


@task(name="gate", task_run_name="gate", cache_policy=NO_CACHE)
def show_verdict(report: GateReport) -> None:
    """Put the verdict on the flow run's page."""
    _show(PAGE_KEY, gate_markdown(report), report.summary)
    _show(REPORT_KEY, _as_artifact(report), "The verdict for programs")


@task(name="compare", task_run_name="compare", cache_policy=NO_CACHE)
def show_comparisons(found: Comparisons) -> None:
    """Put what changed on the flow run's page."""
    description = f"{escape(found.candidate)} against {escape(found.base)}"
    _show(COMPARISON_KEY, comparisons_markdown(found), description)


def read_report(client: "SyncPrefectClient", flow_run_id: UUID | str) -> GateReport | None:
    """Return the verdict that a flow run wrote, or None where it wrote none (yet).

    Raises:
        ValueError: If there is one that this version cannot read.
    """
    from prefect.client.schemas.filters import (  # noqa: PLC0415 - only who reads needs it
        ArtifactFilter,
        ArtifactFilterFlowRunId,
        ArtifactFilterKey,
    )

    found = client.read_artifacts(
        artifact_filter=ArtifactFilter(
            flow_run_id=ArtifactFilterFlowRunId(any_=[UUID(str(flow_run_id))]),
            key=ArtifactFilterKey(any_=[REPORT_KEY]),
        )
    )
    if not found:
        return None
    newest = max(found, key=lambda artifact: str(artifact.created))
    text = str(newest.data).split(_FENCE)[1].removeprefix("json")
    try:
        return GateReport.model_validate_json(text)
    except ValidationError as error:
        raise ValueError(
            f"Flow run {flow_run_id} wrote a verdict that this regrade cannot read: use the same version on both "
            f"sides ({error.errors()[0]['msg']})."
        ) from error


def _show(key: str, markdown: str, description: str) -> None:
    try:
        create_markdown_artifact(markdown, key=key, description=description)
    except (httpx.HTTPError, PrefectException) as error:
        # What was found is returned all the same.
        logger.warning("%s not shown in Prefect: %s", key, error)


def _as_artifact(report: GateReport) -> str:
    """Return the report as a fenced block; JSON escapes keep whatever is in a name from ending it."""
    document = report.model_dump_json(indent=1).replace("`", "\\u0060")
    return f"{_FENCE}json\n{document}\n{_FENCE}\n"
