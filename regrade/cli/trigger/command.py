"""`regrade trigger`."""

import sys
import time
from typing import Annotated

from cyclopts import Group, Parameter

from regrade.cli.options import GenerationOptions, Json, TrackingUri
from regrade.cli.terminal import visible
from regrade.cli.trigger.options import RUN, Following
from regrade.processes.shutdown import exit_now
from regrade.settings import GateSettings

GATE = Group(
    "Gate: is the model worse than a baseline? (any of these asks for a verdict)", sort_key=1
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
            negative="",
            show_default=False,
            help="`NAME=VALUE`: any other parameter of the deployment, such as `stale=true`.",
        ),
    ] = (),
    gate: Annotated[
        GateSettings | None, Parameter(name="*", group=GATE, show_default=False)
    ] = None,
    following: Following | None = None,
    tracking_uri: TrackingUri = None,
    json: Json = False,
) -> None:
    """Start a run of a deployment on the Prefect server that PREFECT_API_URL names.

    Exit codes: 0 started, or with `--wait` done and no regression; 1 regression; 2 cannot tell; 3 could not be run,
    4 cancelled, 5 not in time.
    """
    chosen = (options or GenerationOptions()).parameters(needs_model=False)
    if tracking_uri is not None:
        chosen["tracking_uri"] = tracking_uri
    if gate is not None:
        chosen["gate"] = {
            **(chosen.get("gate") or {}),
            **gate.model_dump(mode="json", exclude_unset=True),
        }
    how = following or Following()
    # Prefect takes a second to import, and `regrade --help` needs none of it.
    from regrade.cli.trigger.run import trigger_run  # noqa: PLC0415

    if code := trigger_run(deployment, chosen, param, how, _say, json=json):
        exit_now(code)


def _say(line: str) -> None:
    """Print one line at once: who reads a job's log while it runs sees no buffer."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {visible(line)}\n")
    sys.stderr.flush()
