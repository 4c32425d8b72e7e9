"""Start a flow run, follow it, write its reports; cancel it if the CI job is cancelled or anything fails."""

import logging
import signal
from collections.abc import Mapping, Sequence
from typing import Any

from regrade.cli.checking import check_given
from regrade.cli.output import Output
from regrade.cli.terminal import stdout
from regrade.cli.trigger.options import FollowOptions, fitting, name_and_value
from regrade.jobs.job import EvaluationJob
from regrade.orchestration.remote.client import connected, page
from regrade.orchestration.remote.follow import Follower, StartedRun
from regrade.orchestration.remote.outcome import Outcome, failure_markdown, outcome
from regrade.processes.shutdown import exit_code
from regrade.settings.errors import SettingsError
from regrade.settings.paths import from_this_folder

logger = logging.getLogger("regrade.trigger")


def trigger_run(
    deployment: str,
    chosen: Mapping[str, Any],
    params: Sequence[str],
    following: FollowOptions,
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
        SettingsError: If a parameter or a time is invalid, a report or the id cannot be written, or the deployment does not exist or
            refuses the parameters.
        NotThisServerError: If PREFECT_API_URL leads to something else, such as a login page.
        ServerGoneError: If the server is down for too long.
    """
    if not following.wait and (following.markdown or following.junit or following.html):
        raise SettingsError("Reports are written when the run has ended: add `--wait`.")
    started = StartedRun()
    with following.written_on_failure(
        deployment,
        lambda problem: failure_markdown(deployment, problem, started.flow_run),
        following.id_file,
    ):
        for text in params:
            name_and_value(text)
        check_given(EvaluationJob, chosen)
        following.check()
        with connected(following.patience) as server:
            deployed = server.deployment(deployment)
            schema = deployed.parameter_openapi_schema or {}
            parameters = from_this_folder(fitting(chosen, params, schema), schema, root=schema)
            # `end_on_signals` would end this process before the run is cancelled
            signal.set_wakeup_fd(-1)
            try:
                with started.cancelled_on_failure(server):
                    flow_run = started.start(server, deployed, parameters, following.id_file)
                    followed = None
                    if following.wait:
                        pool = deployed.work_pool_name
                        followed = Follower(server, flow_run.id, pool).follow(
                            start_timeout=following.start_timeout, timeout=following.timeout
                        )
            except KeyboardInterrupt as error:
                return exit_code(error)
            if followed is None:
                document = {"flow_run": {"id": str(flow_run.id)}, "url": page(flow_run.id)}
                output.show(document, lambda: None)
                return 0
            ended, late = followed
            result = outcome(server, deployment, ended, gated="gate" in parameters, problem=late)
    return _show(result, following, output)


def _show(result: Outcome, following: FollowOptions, output: Output) -> int:
    """Show the outcome before the reports are written, which can fail; return its exit code."""
    markdown = result.markdown()
    logger.info("%s: %s", result.name, result.summary)
    output.show(result.document(), lambda: stdout.out(markdown))
    following.write(markdown, result.junit())
    following.write_html(result.gate)
    return result.exit_code
