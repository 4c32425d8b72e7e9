"""`regrade deploy`."""

import dataclasses
from typing import TYPE_CHECKING

from regrade.cli.command_list import command
from regrade.cli.output import TABLE, Output
from regrade.cli.terminal import stdout
from regrade.settings.project_folder import project_folder
from regrade.text.text import visible

if TYPE_CHECKING:
    from regrade.orchestration.deployment.apply import Deployed


@command(group="Servers and CI", noun="server")
def deploy(*, force: bool = False, output: Output = TABLE) -> None:
    """Create or update work pools and deployments on a Prefect server.

    PREFECT_API_URL names the server. Safe to repeat. Default parameters, and whether schedules and triggers are on,
    are set once and then yours; other settings that were changed on the server by hand are refused with the difference.

    Args:
        force: Overwrite settings that were changed on the server by hand.

    Examples:
        deploy
    """
    # `regrade deploy --help` does not need Prefect, whose import takes a second.
    from regrade.orchestration.deployment.deploy import deploy_project  # noqa: PLC0415

    outcomes: list[Deployed] = []
    silent = output.json or output.quiet
    deploy_project(outcomes.append if silent else _print, force=force)
    objects = [dataclasses.asdict(outcome) for outcome in outcomes]
    output.show({"project": str(project_folder()), "objects": objects}, lambda: None)


def _print(outcome: "Deployed") -> None:
    stdout.print(visible(outcome.line()))
