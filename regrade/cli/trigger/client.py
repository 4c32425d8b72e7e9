"""The Prefect server that PREFECT_API_URL names, as `regrade trigger` talks to it: patiently."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import httpx
from prefect.client.orchestration import get_client
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
from prefect.settings import PREFECT_API_URL
from prefect.utilities.urls import url_for
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_delay, wait_fixed

from regrade.errors import OperationError, SettingsError

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

_Result = TypeVar("_Result")
_PAUSE = 2.0
_REFUSED = (400, 409, 422)


class ServerGoneError(OperationError):
    """The Prefect server did not answer for longer than one is willing to wait."""


class Server:
    """A client that tries again while the server is away: restarted, or on SQLite with a locked database."""

    def __init__(
        self, client: "SyncPrefectClient", patience: float, say: Callable[[str], None]
    ) -> None:
        self.client = client
        self.patience = patience
        self.say = say

    def deployment(self, name: str) -> DeploymentResponse:
        """Return a deployment, by `flow/deployment` or by its own name.

        Raises:
            SettingsError: If there is none, or several.
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
        known = sorted({one.name for one in self.ask(self.client.read_deployments)})
        problem = (
            f"is the name of {len(found)} deployments: say `flow/{name}`"
            if found
            else f"is not on the Prefect server {address()}. It has: {', '.join(known) or 'none; `regrade deploy` creates them'}"
        )
        raise SettingsError(f"Deployment '{name}' {problem}.")

    def start(
        self, deployment: DeploymentResponse, parameters: dict[str, Any], key: str
    ) -> FlowRun:
        """Create a run of a deployment; only one for a key, however often the server has to be asked.

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
            if error.response.status_code not in _REFUSED:
                raise
            raise SettingsError(f"Prefect refused the parameters: {_detail(error)}") from error

    def started(self, key: str) -> FlowRun | None:
        """Return the run that was created for a key, if one was."""
        wanted = FlowRunFilter(idempotency_key=FlowRunFilterIdempotencyKey(any_=[key]))
        found = self.ask(lambda: self.client.read_flow_runs(flow_run_filter=wanted))
        return found[0] if found else None

    def cancel(self, flow_run_id: UUID) -> None:
        """Ask for a flow run to be cancelled, as the UI does."""
        state: State[Any] = State(type=StateType.CANCELLING, message="Cancelled by regrade trigger")
        self.ask(lambda: self.client.set_flow_run_state(flow_run_id, state))

    def has_worker(self, pool: str) -> bool:
        """Return whether a worker polls a pool."""
        online = WorkerFilter.model_validate({"status": {"any_": ["ONLINE"]}})
        found = self.ask(lambda: self.client.read_workers_for_work_pool(pool, online))
        return bool(found)

    def ask(self, question: Callable[[], _Result]) -> _Result:
        """Return the answer to a question, asked again while the server is away.

        Raises:
            ServerGoneError: If it stays away.
        """
        retrying = Retrying(
            retry=retry_if_exception(_is_away),
            stop=stop_after_delay(self.patience),
            wait=wait_fixed(_PAUSE),
            before_sleep=self._say_once,
            reraise=True,
        )
        try:
            return retrying(question)
        except PrefectHTTPStatusError as error:
            if not _is_away(error):
                raise
            raise ServerGoneError(self._gone(_detail(error))) from error
        except httpx.TransportError as error:
            raise ServerGoneError(self._gone(f"{type(error).__name__}: {error}")) from error

    def _gone(self, problem: str) -> str:
        return (
            f"The Prefect server {address()} did not answer for {self.patience:.0f} s ({problem})."
        )

    def _say_once(self, attempt: RetryCallState) -> None:
        if attempt.attempt_number == 1:
            self.say(f"the Prefect server does not answer; asking again for {self.patience:.0f} s")


@contextmanager
def connected(patience: float, say: Callable[[str], None]) -> Iterator[Server]:
    """Return the server that PREFECT_API_URL names.

    Raises:
        SettingsError: If it names none.
    """
    if PREFECT_API_URL.value() is None:
        raise SettingsError(
            "PREFECT_API_URL is not set. Name the server, such as http://127.0.0.1:4200/api."
        )
    with get_client(sync_client=True) as client:
        yield Server(client, patience, say)


def address() -> str:
    """Return the server's address."""
    return str(PREFECT_API_URL.value())


def page(flow_run_id: UUID) -> str:
    """Return the address of a flow run's page."""
    return url_for("flow-run", obj_id=flow_run_id) or f"flow run {flow_run_id}"


def _is_away(error: BaseException) -> bool:
    if isinstance(error, PrefectHTTPStatusError):
        return error.response.status_code >= 500 or error.response.status_code == 429
    return isinstance(error, httpx.TransportError)


def _detail(error: PrefectHTTPStatusError) -> str:
    try:
        detail = error.response.json().get("detail")
    except (ValueError, AttributeError):
        detail = None
    return str(detail or error.response.text or error).strip()
