"""Client for the Prefect server at PREFECT_API_URL; waits while the server is down."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import UUID

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterName,
    FlowRunFilter,
    FlowRunFilterIdempotencyKey,
    WorkerFilter,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.client.schemas.responses import DeploymentResponse
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.utilities.urls import url_for
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_delay, wait_fixed

from regrade.hub.http_client import Failure, failure_of
from regrade.orchestration.remote.access import (
    address,
    client_settings,
    detail,
    unexpected,
    without_login,
)
from regrade.settings.errors import OperationError, SettingsError

logger = logging.getLogger("regrade.trigger")
CANCEL_SECONDS = 20.0
"""Longest wait for the end of a cancelled flow run, in seconds; its worker continues to cancel it after that."""
_Result = TypeVar("_Result")
_PAUSE = 2.0
"""Seconds between two attempts."""
_CANCEL_POLL = 0.5
"""Seconds between two reads of a flow run that is being cancelled."""
_BAD_CERTIFICATE = "CERTIFICATE_VERIFY_FAILED"
_REFUSED = (400, 409, 422)
"""HTTP status codes for parameters that the server does not accept."""


class ServerGoneError(OperationError):
    """The Prefect server did not answer within `--patience` seconds."""


class PrefectServer:
    """A client that retries while the server is down, restarts or is locked (SQLite)."""

    def __init__(self, client: SyncPrefectClient, patience: float) -> None:
        self.client = client
        self.patience = patience
        """Seconds for which a request is retried."""

    def deployment(self, name: str) -> DeploymentResponse:
        """Return a deployment by `flow/deployment`, or by its name if the name is unique.

        Raises:
            SettingsError: If no deployment or several deployments have the name.
        """
        if "/" in name:
            try:
                return self.ask(lambda: self.client.read_deployment_by_name(name))
            except ObjectNotFound:
                found: list[DeploymentResponse] = []
        else:
            wanted = DeploymentFilter(name=DeploymentFilterName(any_=[name]))
            found = self.ask(lambda: self.client.read_deployments(deployment_filter=wanted))
        if len(found) == 1:
            return found[0]
        known = sorted({deployment.name for deployment in self.ask(self.client.read_deployments)})
        problem = (
            f"is the name of {len(found)} deployments: use `flow/{name}`"
            if found
            else f"is not on the Prefect server {address()}. It has: {', '.join(known) or 'none; `regrade deploy` creates them'}"
        )
        raise SettingsError(f"Deployment '{name}' {problem}.")

    def start(
        self, deployment: DeploymentResponse, parameters: dict[str, Any], key: str
    ) -> FlowRun:
        """Create a run of a deployment; a retry with the same idempotency key creates no second run.

        Raises:
            SettingsError: If the server refuses the parameters.
        """
        try:
            return self.ask(
                lambda: self.client.create_flow_run_from_deployment(
                    deployment.id, parameters=parameters, idempotency_key=key
                )
            )
        except PrefectHTTPStatusError as error:
            raise SettingsError(f"Prefect refused the parameters: {_detail(error)}") from error

    def started(self, key: str) -> FlowRun | None:
        """Return the run created for an idempotency key, or None."""
        wanted = FlowRunFilter(idempotency_key=FlowRunFilterIdempotencyKey(any_=[key]))
        found = self.ask(lambda: self.client.read_flow_runs(flow_run_filter=wanted))
        return found[0] if found else None

    def read(self, flow_run_id: UUID) -> FlowRun:
        """Return a flow run in its current state.

        Raises:
            OperationError: If the flow run was deleted on the server.
        """
        try:
            return self.ask(lambda: self.client.read_flow_run(flow_run_id))
        except ObjectNotFound as error:
            raise OperationError(
                f"The flow run {flow_run_id} was deleted on the server."
            ) from error

    def cancel(self, flow_run_id: UUID) -> FlowRun:
        """Cancel a flow run, as the UI does; return it when it has ended, or after `CANCEL_SECONDS`."""
        state: State[Any] = State(type=StateType.CANCELLING, message="Cancelled by regrade trigger")
        self.ask(lambda: self.client.set_flow_run_state(flow_run_id, state))
        deadline = time.monotonic() + CANCEL_SECONDS
        while True:
            flow_run = self.read(flow_run_id)
            ended = flow_run.state is not None and flow_run.state.is_final()
            if ended or time.monotonic() > deadline:
                return flow_run
            time.sleep(_CANCEL_POLL)

    def has_worker(self, pool: str) -> bool:
        """Return True if a worker polls the pool."""
        online = WorkerFilter.model_validate({"status": {"any_": ["ONLINE"]}})
        return bool(self.ask(lambda: self.client.read_workers_for_work_pool(pool, online)))

    def ask(self, request: Callable[[], _Result]) -> _Result:
        """Send a request, with retries for `patience` seconds, and return the answer.

        Raises:
            ServerGoneError: If the server does not answer in this time.
            NotThisServerError: If something else answers, such as a login page.
        """
        retrying = Retrying(
            retry=retry_if_exception(_is_away),
            stop=stop_after_delay(self.patience),
            wait=wait_fixed(_PAUSE),
            before_sleep=self._warn_once,
            reraise=True,
        )
        try:
            return retrying(request)
        except PrefectHTTPStatusError as error:
            if _is_away(error):
                raise ServerGoneError(self._gone(_detail(error))) from error
            if error.response.status_code in _REFUSED:
                raise
            raise unexpected(error.response) from error
        except httpx.TooManyRedirects as error:
            raise ServerGoneError(
                f"The Prefect server {address()} redirects in a circle."
            ) from error
        except httpx.TransportError as error:
            if not _is_away(error):
                raise ServerGoneError(
                    f"The certificate of {address()} is not trusted here: set PREFECT_API_SSL_CERT_FILE to the "
                    f"certificate of its authority ({error})."
                ) from error
            raise ServerGoneError(self._gone(f"{type(error).__name__}: {error}")) from error

    def _gone(self, problem: str) -> str:
        return (
            f"The Prefect server {address()} did not answer for {self.patience:.0f} s ({problem})."
        )

    def _warn_once(self, attempt: RetryCallState) -> None:
        if attempt.attempt_number == 1:
            logger.warning("the Prefect server does not answer; retrying for %.0f s", self.patience)


@contextmanager
def connected(patience: float) -> Iterator[PrefectServer]:
    """Yield a client for the server at PREFECT_API_URL.

    Args:
        patience: Seconds for which a request is retried.

    Raises:
        SettingsError: If PREFECT_API_URL is not set, or is no address.
    """
    address()
    with get_client(sync_client=True, httpx_settings=client_settings()) as client:
        yield PrefectServer(client, patience)


def page(flow_run_id: UUID) -> str:
    """Return the URL of a flow run's page."""
    return url_for("flow-run", obj_id=flow_run_id) or f"flow run {flow_run_id}"


def _is_away(error: BaseException) -> bool:
    if isinstance(error, PrefectHTTPStatusError):
        return failure_of(error.response.status_code) is Failure.TRANSIENT
    return isinstance(error, httpx.TransportError) and _BAD_CERTIFICATE not in str(error)


def _detail(error: PrefectHTTPStatusError) -> str:
    return without_login(detail(error.response) or error.response.text or error).strip()
