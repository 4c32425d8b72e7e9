"""Start a flow run, follow it, write its reports; cancel it if the CI job is cancelled."""

import logging
import signal
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from regrade.cli.output import Output
from regrade.cli.terminal import stdout
from regrade.cli.trigger.options import Following
from regrade.cli.trigger.parameters import fitting
from regrade.orchestration.remote.client import (
    CANCEL_SECONDS,
    Server,
    ServerGoneError,
    connected,
    page,
)
from regrade.orchestration.remote.follow import Follower
from regrade.orchestration.remote.outcome import outcome
from regrade.processes.shutdown import exit_code
from regrade.reporting.files import write_reports

logger = logging.getLogger("regrade.trigger")


def trigger_run(
    deployment: str,
    chosen: Mapping[str, Any],
    params: Sequence[str],
    following: Following,
    output: Output,
) -> int:
    """Start a run of a deployment; return 0, or the exit code of its outcome if `following.wait`.

    Args:
        deployment: Name of the deployment.
        chosen: Parameters from options.
        params: `name=value` each; they override `chosen`.
        following: How to follow the run, and where to write its reports.
        output: Form of the output on stdout.

    Raises:
        SettingsError: If the deployment does not exist or refuses the parameters.
        ServerGoneError: If the server is down for too long.
    """
    with connected(following.patience) as server:
        deployed = server.deployment(deployment)
        parameters = fitting(chosen, params, deployed.parameter_openapi_schema or {})
        key = uuid4().hex
        # `end_on_signals` would end this process before the run is cancelled
        signal.set_wakeup_fd(-1)
        try:
            flow_run = server.start(deployed, parameters, key)
            url = page(flow_run.id)
            logger.info("started %s: %s", flow_run.name, url)
            if following.id_file is not None:
                following.id_file.write_text(f"{flow_run.id}\n")
            if not following.wait:
                document = {"flow_run": {"id": str(flow_run.id)}, "url": url}
                output.show(document, lambda: None)
                return 0
            ended, problem = Follower(server, flow_run.id, deployed.work_pool_name).follow(
                start_timeout=following.start_timeout, timeout=following.timeout
            )
        except KeyboardInterrupt as error:
            _cancel_interrupted(server, key)
            return exit_code(error)
        result = outcome(server, deployment, ended, gated="gate" in parameters, problem=problem)
        markdown = result.markdown()
        write_reports(markdown, (following.markdown, markdown), (following.junit, result.junit()))
        output.show(result.document(), lambda: stdout.out(markdown))
        logger.info("%s: %s", result.name, result.summary)
        return result.exit_code


def _cancel_interrupted(server: Server, key: str) -> None:
    """Cancel the run that this process started, if any."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # CI sends several signals; the first is enough
    server.patience = CANCEL_SECONDS / 2
    try:
        flow_run = server.started(key)
        if flow_run is None:
            logger.info("interrupted before a flow run was started")
            return
        logger.info("interrupted: cancelling %s", flow_run.name)
        logger.info("%s: %s", flow_run.name, server.cancel(flow_run.id).state_name)
    except ServerGoneError as error:
        logger.warning("the flow run may go on, cancel it in the UI: %s", error)
