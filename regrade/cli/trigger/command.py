"""`regrade trigger`."""

from typing import Annotated

from cyclopts import Parameter

from regrade.cli.command_list import command
from regrade.cli.job_options import JobOptions, as_json
from regrade.cli.output import TABLE, Output
from regrade.cli.terminal import show_logs
from regrade.cli.trigger.options import RUN, FollowOptions
from regrade.jobs.job import EvaluationJob
from regrade.processes.shutdown import exit_now
from regrade.settings.paths import from_this_folder, schema_of


class TriggerOptions(JobOptions, job=EvaluationJob, taken=("--timeout",)):  # of the run
    """Options of `regrade trigger`."""


@command(
    group="Servers and CI",
    noun="server",
    gives_verdict=True,
    codes="0 started, or with --wait done and no regression; 1 regression; 2 cannot tell; 3 could not be run; 4 cancelled; 5 not in time",
)
def trigger(
    deployment: str,
    /,
    options: TriggerOptions | None = None,
    *,
    param: Annotated[tuple[str, ...], Parameter(group=RUN)] = (),
    following: FollowOptions | None = None,
    output: Output = TABLE,
) -> None:
    """Start a deployment on the Prefect server at PREFECT_API_URL.

    Args:
        deployment: Deployment: `evaluate-model`, or `flow/deployment`.
        param: `NAME=VALUE`: any other parameter of the deployment, such as `stale=true`.

    Examples:
        trigger evaluate-model --model org/model --benchmark gsm8k --wait
        trigger evaluate-model --model org/model --benchmark gsm8k --wait --baseline baseline --max-drop 3 --junit verdict.xml
    """
    chosen = as_json(EvaluationJob, (options or TriggerOptions()).parameters())
    schema = schema_of(EvaluationJob)
    chosen = from_this_folder(chosen, schema, root=schema)
    # `regrade trigger --help` does not need Prefect, whose import takes a second.
    from regrade.cli.trigger.run import trigger_run  # noqa: PLC0415

    # Prefect's handler of the root logger would print the lines a second time.
    show_logs("regrade.trigger", quiet=output.quiet).propagate = False
    if code := trigger_run(deployment, chosen, param, following or FollowOptions(), output):
        exit_now(code)
