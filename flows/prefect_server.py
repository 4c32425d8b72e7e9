"""Running a flow here when Prefect's server is temporary, unreachable, or goes away meanwhile."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from flows.ending import KEPT
from flows.tether import MARK
from regrade.errors import OperationError, RegradeError
from regrade.results import Evaluation

UNREACHABLE = ("Failed to reach API at", "Timed out while attempting to connect to ephemeral")
"""What Prefect raises as a `RuntimeError` when its server is not there at the start."""


class PrefectGoneError(OperationError):
    """Prefect's server does not answer."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)

    def __str__(self) -> str:
        return f"{self.problem} Start it again, or unset PREFECT_API_URL, and run the same command again. {KEPT}"


def flow_result(flow: Callable[..., Evaluation], parameters: dict[str, Any]) -> Evaluation:
    """Run a flow and return its result.

    Raises:
        RegradeError: What the flow fails with.
        PrefectGoneError: If Prefect's server is not there, or went away meanwhile, maybe only at the very end.
    """
    import httpx  # noqa: PLC0415 - Prefect is imported only once our logging is set up
    from prefect.settings import (  # noqa: PLC0415
        PREFECT_API_URL,
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
        temporary_settings,
    )

    address = PREFECT_API_URL.value()
    # Nobody watches the heart of a run on a temporary server, and ending the thread that beats takes a second.
    changed = {PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None} if address is None else {}
    if address is None:
        _tether_temporary_server()
    try:
        with temporary_settings(changed):
            return flow(**parameters)
    except (httpx.HTTPError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not str(error).startswith(UNREACHABLE):
            raise
        if (ours := _first_cause(error)) is not None:
            raise ours from error  # Prefect could not be told of it, and is not what stands in the way
        where = address or "its temporary address"
        problem = f"Prefect at {where} does not answer ({type(error).__name__}: {error})."
        raise PrefectGoneError(problem) from error


def _first_cause(error: BaseException) -> RegradeError | None:
    """Return what the flow itself failed with, while Prefect was to note that and failed on top of it."""
    context = error.__context__
    while context is not None and not isinstance(context, RegradeError):
        context = context.__context__
    return context


def _tether_temporary_server() -> None:
    """See to it that Prefect's temporary server ends with this process, also when this is killed outright."""
    os.environ[MARK] = mark = uuid4().hex
    reader, _ = os.pipe()  # the write end stays open, and here only, until this process ends
    subprocess.Popen(
        [sys.executable, "-m", "flows.tether", str(reader), mark],
        pass_fds=(reader,),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(reader)
