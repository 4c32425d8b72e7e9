"""One flow run of a deployment, from the first request to its reports; cancelled when the job is that waits for it."""

import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from prefect.client.schemas.objects import FlowRun

from regrade.cli.output import print_json
from regrade.cli.trigger.client import Server, ServerGoneError, connected, page
from regrade.cli.trigger.follow import POLL, Follower, NotInTimeError
from regrade.cli.trigger.options import Following
from regrade.cli.trigger.outcome import outcome
from regrade.cli.trigger.parameters import fitting
from regrade.cli.trigger.reports import write_reports
from regrade.processes.shutdown import exit_code

CANCEL_SECONDS = 20.0
"""How long to wait for the end of a flow run that is being cancelled; its worker goes on with that in any case."""
Say = Callable[[str], None]


def trigger_run(
    deployment: str,
    chosen: Mapping[str, Any],
    params: Sequence[str],
    how: Following,
    say: Say,
    *,
    json: bool,
) -> int:
    """Start a run of a deployment and return the exit code: 0 started, or the verdict if it is followed.

    Args:
        deployment: Its name.
        chosen: Parameters that options named.
        params: `name=value` each, on top.
        how: How the run is followed, and where its reports go.
        say: Prints a line.
        json: Print one JSON document instead of the report's page.

    Raises:
        SettingsError: If there is no such deployment, or it does not take the parameters.
        ServerGoneError: If the server is away for too long.
    """
    with connected(how.patience, say) as server:
        found = server.deployment(deployment)
        parameters = fitting(chosen, params, found.parameter_openapi_schema or {})
        key = uuid4().hex
        signal.set_wakeup_fd(
            -1
        )  # `end_on_signals` would end this process before the run is cancelled
        try:
            flow_run = server.start(found, parameters, key)
            say(f"started {flow_run.name}: {page(flow_run.id)}")
            if how.id_file is not None:
                how.id_file.write_text(f"{flow_run.id}\n")
            if not how.wait:
                _print_started(flow_run, json=json)
                return 0
            follower = Follower(server, flow_run.id, found.work_pool_name, say)
            ended, problem = _followed(follower, how)
        except KeyboardInterrupt as error:
            _cancel_interrupted(server, key, say)
            return exit_code(error)
        result = outcome(server, deployment, ended, gated="gate" in parameters, problem=problem)
        write_reports(result, how.markdown, how.junit)
        if json:
            print_json(result.document())
        else:
            sys.stdout.write(f"{result.markdown()}\n")
        verdict = result.gate.summary if result.gate else result.problem or result.state.lower()
        say(f"{result.name}: {verdict}")
        return result.exit_code


def _followed(follower: Follower, how: Following) -> tuple[FlowRun, str]:
    """Return the flow run at its end, and why it was given up if it was."""
    try:
        ended = follower.follow(start_timeout=how.start_timeout, timeout=how.timeout)
    except NotInTimeError as error:
        return _cancel(follower.server, follower.step()), f"Given up and cancelled: {error}."
    return ended, ""


def _cancel_interrupted(server: Server, key: str, say: Say) -> None:
    """Cancel the run that this process started; nobody waits for it any more."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # CI sends several; the first one is being obeyed
    server.patience = CANCEL_SECONDS / 2
    try:
        flow_run = server.started(key)
        if flow_run is None:
            say("interrupted before a flow run was started")
            return
        say(f"interrupted: cancelling {flow_run.name}")
        ended = _cancel(server, flow_run)
        say(f"{flow_run.name}: {ended.state_name}")
    except ServerGoneError as error:
        say(f"the flow run may go on, cancel it in the UI: {error}")


def _cancel(server: Server, flow_run: FlowRun) -> FlowRun:
    """Cancel a run and return it once it has ended, or as it is after `CANCEL_SECONDS`."""
    server.cancel(flow_run.id)
    deadline = time.monotonic() + CANCEL_SECONDS
    while True:
        now = server.ask(lambda: server.client.read_flow_run(flow_run.id))
        if (now.state is not None and now.state.is_final()) or time.monotonic() > deadline:
            return now
        time.sleep(POLL / 4)


def _print_started(flow_run: FlowRun, *, json: bool) -> None:
    if json:
        print_json({"flow_run": {"id": str(flow_run.id)}, "url": page(flow_run.id)})
