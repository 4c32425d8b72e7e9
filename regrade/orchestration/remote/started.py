"""A flow run that this process starts, and cancels if it cannot follow it to its end."""

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse

from regrade.errors import RegradeError, UserError
from regrade.orchestration.remote.client import CANCEL_SECONDS, Server, page
from regrade.reporting.files import write_file

logger = logging.getLogger("regrade.trigger")


class StartedRun:
    """A flow run that is about to be started, or was started, by this process."""

    def __init__(self) -> None:
        self.flow_run: FlowRun | None = None
        """None until the server has answered that it is created."""
        self._key = uuid4().hex
        """Idempotency key."""

    def start(
        self,
        server: Server,
        deployed: DeploymentResponse,
        parameters: dict[str, Any],
        id_file: Path | None,
    ) -> FlowRun:
        """Start the flow run, and write its id.

        Raises:
            SettingsError: If the server refuses the parameters, or the id cannot be written.
        """
        self.flow_run = server.start(deployed, parameters, self._key)
        logger.info("started %s: %s", self.flow_run.name, page(self.flow_run.id))
        if id_file is not None:
            write_file(id_file, f"{self.flow_run.id}\n")
        return self.flow_run

    @contextmanager
    def cancelled_on_failure(self, server: Server) -> Iterator[None]:
        """Cancel the flow run if the block is interrupted or raises an error, which is raised again."""
        try:
            yield
        except KeyboardInterrupt:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)  # CI sends several; the first is enough
            self._cancel(server, "interrupted")
            raise
        except UserError:
            if self.flow_run is not None:  # else the server refused the parameters or the login
                self._cancel(server, "failed")
            raise
        except Exception:
            self._cancel(server, "failed")
            raise

    def _cancel(self, server: Server, why: str) -> None:
        server.patience = CANCEL_SECONDS / 2
        try:
            if self.flow_run is None:  # the answer to its creation may be lost
                self.flow_run = server.started(self._key)
            if self.flow_run is None:
                logger.info("%s before a flow run was started", why)
                return
            logger.info("%s: cancelling %s", why, self.flow_run.name)
            state = server.cancel(self.flow_run.id).state_name
            logger.info("%s: %s", self.flow_run.name, state)
        except Exception as error:
            logger.warning("the flow run may go on: %s", self._how_to_cancel())
            if not isinstance(error, RegradeError):
                raise
            logger.warning("%s", error)

    def _how_to_cancel(self) -> str:
        if self.flow_run is None:
            return "look for it in the UI, and cancel it there"
        return (
            f"`prefect flow-run cancel {self.flow_run.id}` cancels it, "
            f"or its page: {page(self.flow_run.id)}"
        )
