"""Runs of real engines that are killed, ended or cancelled, and then done by another run."""

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import FlowRun
from prefect.states import Cancelling

from tests.command_line import ROOT, Ran
from tests.crash.harness import ENDING_SECONDS, Command, wait_until
from tests.prefect_fixtures import state_of

SECONDS = 1200
"""Longest time for a run, of which a part is the start of an engine."""
ENDINGS = pytest.mark.parametrize(
    ("name", "ending"), [("killed", signal.SIGKILL), ("ended", signal.SIGTERM), ("cancelled", None)]
)
"""Names of runs, and the signal that ends the first; None: Prefect cancels it on a worker."""


@dataclass(frozen=True)
class Runs:
    """Commands on a Prefect server, below a folder."""

    folder: Path
    server: str

    def command(self, name: str, parameters: dict[str, Any]) -> Command:
        """Return a command that generates; what comes before `-` in its name is the folder of its answers."""
        file = self.folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(parameters))
        environment = {
            "PREFECT_API_URL": self.server,
            "REGRADE_PUBLISH_SECONDS": "0.5",
            "REGRADE_CACHE": str(self.folder / "cache"),
        }
        where = str(self.folder / name.partition("-")[0])
        arguments = ["generate", "--config", str(file), "--answers", where]
        return Command(self.folder / f"home-{name}", arguments, environment)

    def finish(self, name: str, parameters: dict[str, Any]) -> Ran:
        ran = self.command(name, parameters).finish(timeout=SECONDS)
        assert ran.code == 0, ran.err
        return ran

    def interrupt_and_finish(
        self,
        name: str,
        parameters: dict[str, Any],
        ending: signal.Signals | None,
        client: SyncPrefectClient,
        is_time: Callable[[Command], bool],
        look: Callable[[Command], None],
    ) -> None:
        """End a run, and run it once more to its end.

        Args:
            name: Name of the command.
            parameters: Parameters of both runs.
            ending: Signal that ends the first; None: Prefect cancels it.
            client: Client of the server.
            is_time: If the first run is to be ended now.
            look: Called between the runs, when no process of the first is left.
        """
        command = self.command(name, parameters)
        if ending is None:
            given = parameters | {"answers": str(self.folder / name)}
            _cancel_and_run_again(client, command, given, is_time, look)
            return
        with command.started() as run:
            wait_until(
                lambda: is_time(command) or run.process.poll() is not None,
                SECONDS,
                "the run did not come as far as it should",
            )
            run.process.send_signal(ending)
            assert run.wait(120).code != 0
        command.assert_nothing_left()
        look(command)
        time.sleep(0.5)
        self.finish(name, parameters)


def _cancel_and_run_again(
    client: SyncPrefectClient,
    worker: Command,
    parameters: dict[str, Any],
    is_time: Callable[[Command], bool],
    look: Callable[[Command], None],
) -> None:
    """Run the deployment `generate-answers` on a worker, cancel it in Prefect, and run it once more to its end."""
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
        wait_until(lambda: is_time(worker), SECONDS, "the run did not come as far as it should")
        client.set_flow_run_state(first.id, Cancelling())
        wait_until(lambda: state_of(client, first).is_final(), 120, "the run was not cancelled")
        assert state_of(client, first).is_cancelled()
        wait_until(
            lambda: not worker.processes("VLLM::"), ENDING_SECONDS, "an engine is left behind"
        )
        look(worker)
        second = begun()
        wait_until(lambda: state_of(client, second).is_final(), SECONDS, "the run did not end")
        assert state_of(client, second).is_completed(), started.err.read_text()[-5000:]
        started.process.send_signal(signal.SIGTERM)
        started.wait(60)
    worker.assert_nothing_left()
