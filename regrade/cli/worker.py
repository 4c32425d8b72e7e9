"""`regrade worker`."""

from typing import Annotated

from cyclopts import Parameter

from regrade.cli.command_list import command
from regrade.settings.errors import OperationError, SettingsError


@command(group="Servers and CI", noun="server")
def worker(
    *,
    pool: str,
    limit: int | None = None,
    name: str | None = None,
    work_queue: Annotated[list[str] | None, Parameter(negative=())] = None,
    with_healthcheck: bool = False,
    run_once: bool = False,
) -> None:
    """Run the flow runs of a work pool on this machine.

    PREFECT_API_URL names the server. The worker runs only the flows of this regrade: a deployment with other code, or a run
    with a command or environment variables of its own, is refused and ends as Crashed with the reason. One vLLM runs at a time
    on this machine, others wait; REGRADE_ENGINE_SLOTS sets another number.

    Args:
        pool: Work pool: `gpu` or `cpu`.
        limit: Most flow runs at the same time that may still need an engine; one that only publishes, scores or tracks
            does not count. Use 1 on a machine with GPUs.
        name: Name of the worker on the server; a random name if not given.
        work_queue: Only this queue of the pool; can be repeated.
        with_healthcheck: Answer on port 8080 at `/health`.
        run_once: Stop when the runs that are scheduled now have ended.

    Examples:
        worker --pool gpu
    """
    if limit is not None and limit < 1:
        raise SettingsError(f"`--limit {limit}` should be at least 1.")
    import httpx  # noqa: PLC0415 - Prefect, whose errors these are, is imported below

    from regrade.orchestration.project_worker import run_worker  # noqa: PLC0415 - imports Prefect
    from regrade.orchestration.remote.access import address  # noqa: PLC0415

    url = address()
    try:
        run_worker(
            pool,
            name=name,
            queues=work_queue or [],
            limit=limit,
            health_check=with_healthcheck,
            once=run_once,
        )
    except httpx.TransportError as error:
        problem = f"{type(error).__name__}: {error}"
        raise OperationError(
            f"The Prefect server {url} does not answer ({problem}). Start it, or set PREFECT_API_URL to another."
        ) from error
