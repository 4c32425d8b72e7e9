"""What became of a flow run, as CI takes it: an exit code, a page of markdown, JUnit XML, JSON."""

import json
import re
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    ArtifactFilterKey,
)
from prefect.client.schemas.objects import FlowRun

from regrade.cli.trigger.client import Server, page
from regrade.comparing.gate_report import COULD_NOT_RUN, GateReport
from regrade.orchestration.artifacts import METRICS_KEY, RESULT_KEY, read_report
from regrade.reporting.tables import escape
from regrade.reporting.verdicts import gate_markdown

CANCELLED = 4
NOT_IN_TIME = 5
_IMAGE = re.compile(r"!\[[^\]]*\]\(data:[^)]*\)\n*")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a flow run."""

    deployment: str
    flow_run_id: UUID
    name: str
    state: str
    exit_code: int
    """0 done or passed, 1 regression, 2 cannot tell, 3 and above could not be run."""
    problem: str = ""
    """Why it could not be run."""
    gate: GateReport | None = None
    result: str | None = None
    """The result's page, without pictures: comments in CI show none that are part of the text."""
    metrics: list[dict[str, Any]] = field(default_factory=list)
    """Headline metrics, one for each answer set."""

    def document(self) -> dict[str, Any]:
        """Return what `--json` prints."""
        return {
            "deployment": self.deployment,
            "flow_run": {"id": str(self.flow_run_id), "name": self.name, "state": self.state},
            "url": page(self.flow_run_id),
            "exit_code": self.exit_code,
            "problem": self.problem or None,
            "gate": self.gate.model_dump(mode="json") if self.gate else None,
            "metrics": self.metrics,
        }

    def markdown(self) -> str:
        """Return a page for people; there always is one, also where nothing could be run."""
        link = f"[{escape(self.name)}]({page(self.flow_run_id)})"
        if self.gate is not None:
            return f"{gate_markdown(self.gate).rstrip()}\n\nFlow run: {link}\n"
        if self.problem:
            return f"# {self.deployment} could not be run\n\n{escape(self.problem)}\n\nFlow run: {link}\n"
        return f"# {self.deployment}\n\n{self.result or 'Done.'}\n\nFlow run: {link}\n"


def outcome(
    server: Server, deployment: str, flow_run: FlowRun, *, gated: bool, problem: str = ""
) -> Outcome:
    """Return what became of a flow run.

    Args:
        server: Where it is kept.
        deployment: Name of its deployment.
        flow_run: The flow run, ended.
        gated: Whether a verdict was asked for.
        problem: Why it was given up, if it was.
    """
    state = (flow_run.state_name or "unknown").upper()
    gate = server.ask(lambda: read_report(server.client, flow_run.id)) if not problem else None
    code = 0
    if gate is not None:
        code = gate.exit_code
    elif problem:
        code = NOT_IN_TIME
    elif flow_run.state is not None and flow_run.state.is_cancelled():
        code, problem = CANCELLED, "It was cancelled."
    elif flow_run.state is None or not flow_run.state.is_completed():
        message = flow_run.state.message if flow_run.state else ""
        code, problem = COULD_NOT_RUN, f"{flow_run.state_name}: {message or 'without a word'}"
    elif gated:
        code, problem = COULD_NOT_RUN, "It is done, and wrote no verdict."
    result = _artifact(server, flow_run.id, RESULT_KEY)
    return Outcome(
        deployment=deployment,
        flow_run_id=flow_run.id,
        name=flow_run.name,
        state=state,
        exit_code=code,
        problem=problem,
        gate=gate,
        result=_IMAGE.sub("", result) if isinstance(result, str) else None,
        metrics=_metrics(server, flow_run.id),
    )


def _metrics(server: Server, flow_run_id: UUID) -> list[dict[str, Any]]:
    found = _artifact(server, flow_run_id, METRICS_KEY)
    rows = json.loads(found) if isinstance(found, str) else found
    return list(rows) if isinstance(rows, list) else []


def _artifact(server: Server, flow_run_id: UUID, key: str) -> Any:  # noqa: ANN401 - any JSON
    wanted = ArtifactFilter(
        flow_run_id=ArtifactFilterFlowRunId(any_=[flow_run_id]), key=ArtifactFilterKey(any_=[key])
    )
    found = server.ask(lambda: server.client.read_artifacts(artifact_filter=wanted))
    return max(found, key=lambda artifact: str(artifact.created)).data if found else None
