"""Outcome of a flow run for CI: exit code, markdown, JUnit XML, JSON."""

import json
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from prefect.client.schemas.objects import FlowRun

from regrade.comparing import verdict_text
from regrade.comparing.gate_report import GateReport
from regrade.comparing.junit import junit, junit_run
from regrade.orchestration.artifacts import (
    BASELINE_KEY,
    METRICS_KEY,
    RESULT_KEYS,
    newest_artifact,
    read_report,
)
from regrade.orchestration.remote.client import PrefectServer, page
from regrade.records.patterns import compiled
from regrade.settings.errors import COULD_NOT_RUN
from regrade.text.blocks import Block, Heading, Line, Link
from regrade.text.markdown import markdown

CANCELLED = 4
"""Exit code for a flow run that was cancelled by someone else."""
NOT_IN_TIME = 5
"""Exit code for a flow run that `regrade trigger` cancelled because it was late."""
_IMAGE = compiled(r"!\[[^\[\]]*\]\(data:[^()\[]*\)\n*")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Outcome of a flow run."""

    deployment: str
    flow_run_id: UUID
    name: str
    state: str
    exit_code: int
    """0 done or pass, 1 regression, 2 cannot tell, 3 or more no verdict."""
    problem: str = ""
    """Reason for an exit code of 3 or more."""
    gate: GateReport | None = None
    created: str = ""
    """Sentence about the baseline that the run created in place of a verdict."""
    result: str | None = None
    """The result as markdown without images, which CI comments do not render."""
    metrics: list[dict[str, Any]] = field(default_factory=list)
    """Headline metrics, one dictionary for each answer set."""

    @property
    def summary(self) -> str:
        """The verdict, the problem or the state in one line."""
        return (
            self.gate.summary if self.gate else self.problem or self.created or self.state.lower()
        )

    def document(self) -> dict[str, Any]:
        """Return the JSON document of `regrade trigger --json`."""
        return {
            "deployment": self.deployment,
            "flow_run": {"id": str(self.flow_run_id), "name": self.name, "state": self.state},
            "url": page(self.flow_run_id),
            "exit_code": self.exit_code,
            "problem": self.problem or None,
            "gate": self.gate.model_dump(mode="json") if self.gate else None,
            "baseline_created": self.created or None,
            "metrics": self.metrics,
        }

    def markdown(self) -> str:
        """Return the verdict, the problem or the result as a page of markdown."""
        run = _link(self.name, self.flow_run_id)
        if self.gate is not None:
            return markdown([*verdict_text.blocks(self.gate), run])
        if self.problem:
            return markdown([*_failure(self.deployment, self.problem), run])
        parts = filter(None, (self.created, self.result))  # pages, as the run wrote them
        result = "\n\n".join(parts) or "Done."
        return "\n".join([markdown([Heading(self.deployment, 1)]), result, "", markdown([run])])

    def junit(self) -> str:
        """Return the verdict or the problem as JUnit XML."""
        return junit(self.gate) if self.gate else junit_run(self.deployment, self.problem)


def failure_markdown(deployment: str, problem: str, flow_run: FlowRun | None) -> str:
    """Return the page of a run that could not be started or followed; `flow_run` is None if none is known."""
    run = [_link(flow_run.name, flow_run.id)] if flow_run else []
    return markdown([*_failure(deployment, problem), *run])


def _failure(deployment: str, problem: str) -> list[Block]:
    return [Heading(f"{deployment} could not be run", 1), Line(problem)]


def _link(name: str, flow_run_id: UUID) -> Block:
    return Line(("Flow run: ", Link(name, page(flow_run_id))))


def outcome(
    server: PrefectServer, deployment: str, flow_run: FlowRun, *, gated: bool, problem: str = ""
) -> Outcome:
    """Return the outcome of a flow run.

    Args:
        server: Server of the flow run.
        deployment: Name of its deployment.
        flow_run: The flow run, ended.
        gated: True if a verdict was requested.
        problem: Reason for which `regrade trigger` cancelled it, else "".
    """

    def artifact(key: str) -> Any:  # noqa: ANN401 - any JSON
        return server.ask(lambda: newest_artifact(server.client, flow_run.id, key))

    created = None
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
        code, problem = COULD_NOT_RUN, f"{flow_run.state_name}: {message or 'no reason given'}"
    elif gated and not (created := artifact(BASELINE_KEY)):
        code, problem = COULD_NOT_RUN, "It is done, but wrote no verdict."

    result = next((found for found in map(artifact, RESULT_KEYS) if isinstance(found, str)), None)
    metrics = artifact(METRICS_KEY)
    return Outcome(
        deployment=deployment,
        flow_run_id=flow_run.id,
        name=flow_run.name,
        state=(flow_run.state_name or "unknown").upper(),
        exit_code=code,
        problem=problem,
        gate=gate,
        created=str(created or "").strip(),
        result=None if result is None else _IMAGE.sub(lambda _: "", result),
        metrics=json.loads(metrics) if isinstance(metrics, str) else metrics or [],
    )
