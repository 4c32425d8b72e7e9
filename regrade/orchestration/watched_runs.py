"""Start one run of `evaluate-model` for each revision of a watched model, whatever crashes between."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prefect.client.schemas.objects import FlowRun, StateType

from regrade.checkpoints.watching.found import Found
from regrade.jobs.job import EvaluationJob
from regrade.orchestration.remote.client import Server, page
from regrade.settings.marks import INDECISIVE, marked

DEPLOYMENT = "evaluate-model/evaluate-model"
ATTEMPTS = 3
"""Runs of a revision: one that crashed, such as with its machine, is started again; one that failed is not."""
Status = Literal["started", "running", "evaluated", "failed", "cancelled", "not written", "later"]


@dataclass(frozen=True, slots=True)
class Watched:
    """A revision and its run."""

    found: Found
    status: Status
    note: str = ""
    """Reason, or the message of the run's state."""
    url: str | None = None
    """Page of the run."""


def start_runs(
    server: Server,
    revisions: Sequence[Found],
    parameters: Callable[[Found], Mapping[str, Any]],
    *,
    at_a_time: int,
    watcher: str,
) -> list[Watched]:
    """Start a run for each complete revision that has none, in order; return all revisions with their runs.

    A run is known by an idempotency key of the revision and what decides its answers, so that two calls at the same
    time, or a call after a crash, start no second one.

    Args:
        server: Client of the Prefect server.
        revisions: Revisions, the oldest first.
        parameters: Returns the parameters of a revision's run.
        at_a_time: Most runs that wait or run; further revisions are left for later.
        watcher: Tag of the runs that this watcher starts: those of revisions that are not found any more count too.

    Raises:
        SettingsError: If the deployment does not exist, or the server refuses the parameters.
        ServerGoneError: If the server does not answer.
    """
    deployment = server.deployment(DEPLOYMENT)
    written = [found for found in revisions if found.waits_for is None]
    keys = {found: _keys(found, parameters(found)) for found in written}
    runs = server.started_all([key for known in keys.values() for key in known])
    last = {found: _last(known, runs) for found, known in keys.items()}
    found_open = {run.id for run in last.values() if run is not None and not _ended(run)}
    unfinished = len(found_open | server.open_runs(deployment, watcher, at_a_time))
    watched: list[Watched] = []
    for found in revisions:
        if found.waits_for is not None:
            watched.append(Watched(found, "not written", found.waits_for))
            continue
        run = last[found]
        free = next((key for key in keys[found] if key not in runs), None)
        if run is not None and (run.state_type is not StateType.CRASHED or free is None):
            watched.append(_known(found, run))
        elif unfinished >= at_a_time:
            watched.append(Watched(found, "later", f"{at_a_time} runs wait or run already"))
        else:
            started = server.start(deployment, dict(parameters(found)), str(free), tags=[watcher])
            unfinished += 1
            note = "again, because the last run crashed" if run is not None else ""
            watched.append(Watched(found, "started", note, page(started.id)))
    return watched


def _keys(found: Found, parameters: Mapping[str, Any]) -> list[str]:
    """Return the idempotency key of each attempt."""
    indecisive = marked(EvaluationJob, INDECISIVE)
    decisive = {name: value for name, value in parameters.items() if name not in indecisive}
    content = json.dumps([found.model, found.revision, decisive], sort_keys=True)
    digest = hashlib.sha256(content.encode()).hexdigest()[:32]
    return [f"watch-{digest}-{attempt}" for attempt in range(1, ATTEMPTS + 1)]


def _last(keys: Sequence[str], runs: Mapping[str, FlowRun]) -> FlowRun | None:
    """Return the last attempt."""
    return next((runs[key] for key in reversed(keys) if key in runs), None)


def _ended(run: FlowRun) -> bool:
    return run.state is not None and run.state.is_final()


def _known(found: Found, run: FlowRun) -> Watched:
    message = (run.state.message if run.state is not None else None) or ""
    status: Status = "running"
    if run.state_type is StateType.COMPLETED:
        status = "evaluated"
    elif run.state_type is StateType.CANCELLED:
        status = "cancelled"
    elif _ended(run):
        status = "failed"
    return Watched(found, status, message if _ended(run) else "", page(run.id))
