"""`regrade deploy`."""

import dataclasses
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from regrade.cli.options import Json
from regrade.cli.output import print_json
from regrade.cli.terminal import plain, stdout
from regrade.project_folder import project_folder

if TYPE_CHECKING:
    from regrade.orchestration.deployment.outcome import Outcome


def deploy(
    *,
    force: Annotated[bool, Parameter(negative="")] = False,
    json: Json = False,
) -> None:
    """Create or update work pools and deployments on the Prefect server that PREFECT_API_URL names.

    Safe to repeat: what a person changed on the server stays as it is, and is named.

    Args:
        force: Also set what a person changed on the server.
        json: Print JSON.
    """
    # Prefect takes a second to import, and `regrade --help` needs none of it.
    from regrade.orchestration.deployment.deploy import deploy_project  # noqa: PLC0415

    outcomes: list[Outcome] = []
    deploy_project(outcomes.append if json else _print, force=force)
    if json:
        objects = [dataclasses.asdict(outcome) for outcome in outcomes]
        print_json({"project": str(project_folder()), "objects": objects})


def _print(outcome: "Outcome") -> None:
    for line in outcome.lines():
        stdout.print(plain(line))
