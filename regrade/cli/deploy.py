"""`regrade deploy`."""

import dataclasses
from typing import TYPE_CHECKING

from regrade.cli.output import TABLE, Output
from regrade.cli.terminal import plain, stdout
from regrade.project_folder import project_folder

if TYPE_CHECKING:
    from regrade.orchestration.deployment.outcome import Outcome


def deploy(*, force: bool = False, output: Output = TABLE) -> None:
    """Create or update work pools and deployments on a Prefect server.

    The server is the one that PREFECT_API_URL names. Safe to repeat: what a person changed on the server stays as it
    is, and is named.

    Args:
        force: Also set what a person changed on the server.
    """
    # Prefect takes a second to import, and `regrade deploy --help` does not need it.
    from regrade.orchestration.deployment.deploy import deploy_project  # noqa: PLC0415

    outcomes: list[Outcome] = []
    collected = output.json or output.quiet
    deploy_project(outcomes.append if collected else _print, force=force)
    objects = [dataclasses.asdict(outcome) for outcome in outcomes]
    output.show({"project": str(project_folder()), "objects": objects}, lambda: None)


def _print(outcome: "Outcome") -> None:
    for line in outcome.lines():
        stdout.print(plain(line))
