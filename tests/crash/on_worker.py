"""A run on a worker that Prefect cancels."""

import signal
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun
from prefect.states import Cancelling

from tests.command_line import ROOT
from tests.crash.harness import ENDING_SECONDS, Command, wait_until
from tests.prefect_fixtures import state_of


def cancelled_and_run_again(
    client: SyncPrefectClient,
    worker: Command,
    parameters: dict[str, Any],
    is_time: Callable[[], bool],
    look: Callable[[], None],
) -> None:
    """Run the deployment `generate-answers`, cancel it in Prefect, and run it once more to its end.

    Args:
        client: Client of the server.
        worker: Home and environment of the worker; its arguments are set here.
        parameters: Parameters of both runs.
        is_time: If the first run is to be cancelled now.
        look: Called between the runs, when no process of the first is left.
    """
    queue = f"cancelled-{uuid4()}"
    worker.arguments = ["worker", "--pool", "gpu", "--limit", "1", "--work-queue", queue]
    worker.environment["PYTHONPATH"] = str(ROOT)
    deployment = client.read_deployment_by_name("generate-answers/generate-answers")

    def begun() -> FlowRun:
        return client.create_flow_run_from_deployment(
            deployment.id, parameters=parameters, work_queue_name=queue
        )

    with worker.started() as started:
        first = begun()
        wait_until(is_time, 1200, "the run did not come as far as it should")
        client.set_flow_run_state(first.id, Cancelling())
        wait_until(lambda: state_of(client, first).is_final(), 120, "the run was not cancelled")
        assert state_of(client, first).is_cancelled()
        wait_until(
            lambda: not worker.processes("VLLM::"), ENDING_SECONDS, "an engine is left behind"
        )
        look()
        second = begun()
        wait_until(lambda: state_of(client, second).is_final(), 1200, "the run did not end")
        assert state_of(client, second).is_completed(), started.err.read_text()[-5000:]
        started.process.send_signal(signal.SIGTERM)
        started.wait(60)
    worker.assert_nothing_left()
