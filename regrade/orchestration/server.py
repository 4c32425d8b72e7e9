"""Run a flow in this process, on the configured Prefect server or a temporary one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regrade.errors import OperationError, RegradeError
from regrade.orchestration.temporary_server import TemporaryServer
from regrade.processes.shutdown import KEPT
from regrade.reporting.results import Evaluation

UNREACHABLE = "Failed to reach API at"
"""Start of the message Prefect raises if its server cannot be reached."""


class PrefectGoneError(OperationError):
    """Prefect's server does not answer."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        self.temporary = False
        """The server was a temporary one, which ends with the command."""
        super().__init__(problem)

    def __str__(self) -> str:
        run = "Run" if self.temporary else "Start it again, or unset PREFECT_API_URL, and run"
        return f"{self.problem} {run} the same command again. {KEPT}"


@contextmanager
def prefect_server(
    log: Path, *, meanwhile: Callable[[], object], heartbeats: bool = True
) -> Iterator[None]:
    """Use the configured Prefect server, or else a temporary one, within the block.

    Args:
        log: Takes the output of a temporary server.
        meanwhile: Called while a temporary server starts, which takes some seconds; else not at all.
        heartbeats: Tell the server all the time that the flow runs. Ending the thread that does takes a second.

    Raises:
        TemporaryServerError: If a temporary server does not start.
    """
    from prefect.settings import (  # noqa: PLC0415 - Prefect is imported only once our logging is set up
        PREFECT_API_URL,
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
        temporary_settings,
    )

    silent = {PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}
    if PREFECT_API_URL.value() is not None:
        with temporary_settings({} if heartbeats else silent):
            yield
        return
    server = TemporaryServer(log)
    meanwhile()
    server.wait()
    # Nobody watches the heart of a run on a temporary server.
    with temporary_settings({PREFECT_API_URL: server.api_url, **silent}):
        try:
            yield
        except PrefectGoneError as error:
            error.temporary = True
            raise


def flow_result(flow: Callable[..., Evaluation], parameters: dict[str, Any]) -> Evaluation:
    """Run a flow and return its result.

    Raises:
        RegradeError: If the flow fails on purpose.
        PrefectGoneError: If Prefect's server cannot be reached, at the start or later.
    """
    import httpx  # noqa: PLC0415 - see above
    from prefect.settings import PREFECT_API_URL  # noqa: PLC0415

    try:
        return flow(**parameters)
    except (httpx.HTTPError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not str(error).startswith(UNREACHABLE):
            raise
        if (cause := _first_cause(error)) is not None:
            raise cause from error  # Prefect failed only while reporting it
        problem = f"Prefect at {PREFECT_API_URL.value()} does not answer ({type(error).__name__}: {error})."
        raise PrefectGoneError(problem) from error


def _first_cause(error: BaseException) -> RegradeError | None:
    """Return the flow's own error if Prefect failed while reporting it."""
    context = error.__context__
    while context is not None and not isinstance(context, RegradeError):
        context = context.__context__
    return context
