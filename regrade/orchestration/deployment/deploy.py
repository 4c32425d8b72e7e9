"""Deploy prefect.yaml to a Prefect server; safe to repeat."""

from collections.abc import Callable

import httpx
from prefect.client.orchestration import get_client
from prefect.exceptions import PrefectHTTPStatusError
from prefect.settings import PREFECT_CLIENT_RETRY_EXTRA_CODES, temporary_settings

from regrade.errors import OperationError
from regrade.orchestration.deployment.apply import apply_deployment, create_pool
from regrade.orchestration.deployment.changed_scorers import announce_changed_scorers
from regrade.orchestration.deployment.desired import read_desired
from regrade.orchestration.deployment.heartbeats import crash_silent_runs
from regrade.orchestration.deployment.outcome import Outcome
from regrade.orchestration.remote.access import address, client_settings
from regrade.project_folder import make_flows_importable, project_folder

LIMITS = {"gpu": 4}
"""Concurrent flow runs of a new work pool, for each machine: one generates, while others publish, score and track."""


def deploy_project(report: Callable[[Outcome], None], *, force: bool) -> None:
    """Create or update pools, deployments, triggers and automations on the server at PREFECT_API_URL.

    Args:
        report: Called after each object.
        force: Overwrite settings that were changed by hand on the server, too.

    Raises:
        SettingsError: If PREFECT_API_URL is not set or leads to something else, or prefect.yaml holds an unknown setting.
        OperationError: If the server refuses or does not answer.
    """
    url = address()
    make_flows_importable()
    deployments = read_desired(project_folder() / "prefect.yaml")
    # A server on SQLite answers 500 while its database is locked. All requests here are safe to repeat.
    retries = {PREFECT_CLIENT_RETRY_EXTRA_CODES: PREFECT_CLIENT_RETRY_EXTRA_CODES.value() or {500}}
    try:
        with (
            temporary_settings(retries),
            get_client(sync_client=True, httpx_settings=client_settings()) as client,
        ):
            for pool in sorted({deployment.pool for deployment in deployments}):
                report(create_pool(client, pool, LIMITS.get(pool)))
            for deployment in deployments:
                report(apply_deployment(client, deployment, force=force))
            for outcome in announce_changed_scorers(client):
                report(outcome)
            report(crash_silent_runs(client))
    except PrefectHTTPStatusError as error:
        raise OperationError(f"The Prefect server {url} refused: {error}") from error
    except httpx.TransportError as error:
        problem = f"{type(error).__name__}: {error}"
        raise OperationError(f"The Prefect server {url} does not answer ({problem}).") from error
