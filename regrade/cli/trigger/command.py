"""`regrade trigger`."""

from typing import Annotated

from cyclopts import Group, Parameter

from regrade.cli.generation_options import GenerationOptions
from regrade.cli.options import TrackingUri
from regrade.cli.output import TABLE, Output
from regrade.cli.terminal import show_logs
from regrade.cli.trigger.options import RUN, Following, from_this_folder
from regrade.jobs.job import EvaluationJob
from regrade.processes.shutdown import exit_now
from regrade.settings import GateSettings

GATE = Group(
    "Gate: is the model worse than a baseline? (any of these options requests a verdict)",
    sort_key=1,
)


def trigger(
    deployment: Annotated[
        str, Parameter(help="Deployment: `evaluate-model`, or `flow/deployment`.")
    ],
    /,
    options: GenerationOptions | None = None,
    *,
    param: Annotated[
        tuple[str, ...],
        Parameter(
            group=RUN,
            help="`NAME=VALUE`: any other parameter of the deployment, such as `stale=true`.",
        ),
    ] = (),
    gate: Annotated[
        GateSettings | None, Parameter(name="*", group=GATE, show_default=False)
    ] = None,
    following: Following | None = None,
    tracking_uri: TrackingUri = None,
    output: Output = TABLE,
) -> None:
    """Start a deployment on the Prefect server at PREFECT_API_URL.

    Exit codes: 0 started, or with `--wait` done and no regression; 1 regression; 2 cannot tell; 3 could not be run;
    4 cancelled; 5 not in time.
    """
    chosen = (options or GenerationOptions()).parameters(needs_model=False)
    if tracking_uri is not None:
        chosen["tracking_uri"] = tracking_uri
    if gate is not None:
        chosen["gate"] = {
            **(chosen.get("gate") or {}),
            **gate.model_dump(mode="json", exclude_unset=True),
        }
    schema = EvaluationJob.model_json_schema()
    chosen = from_this_folder(chosen, schema, root=schema)
    # `regrade trigger --help` does not need Prefect, whose import takes a second.
    from regrade.cli.trigger.run import trigger_run  # noqa: PLC0415

    # Prefect's handler of the root logger would print the lines a second time.
    show_logs("regrade.trigger", quiet=output.quiet).propagate = False
    if code := trigger_run(deployment, chosen, param, following or Following(), output):
        exit_now(code)
