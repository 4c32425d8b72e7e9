"""Show in Prefect that a flow run waits for another one."""

import logging
from collections.abc import Callable
from uuid import uuid4

from prefect.client.orchestration import get_client
from prefect.runtime import flow_run
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.types._datetime import now

from regrade.engines.base import WAITING
from regrade.orchestration.optional import optional

logger = logging.getLogger("regrade.generate")

SECONDS = 5.0
"""Longest time for a change of the state, in seconds: the engine does not wait for the Prefect server."""
AWAITING = "AwaitingOtherRun"
"""Name of the state of a flow run that waits for another one; its type is RUNNING."""


class Stages:
    """Stages of a flow run: those in which it waits for another run are shown on its page.

    Args:
        on_step: Called with the name of each other stage.
    """

    def __init__(self, on_step: Callable[[str], None] = lambda _: None) -> None:
        self._on_step = on_step
        self._waiting = False

    def show(self, stage: str) -> None:
        """Log a stage in which the flow run waits, and set its state to `AwaitingOtherRun`, or back."""
        waited, self._waiting = self._waiting, stage.startswith(WAITING)
        if self._waiting:
            logger.info("%s", stage)
            _set_state(AWAITING, f"{stage[0].upper()}{stage[1:]}.")
            return
        if waited:
            _set_state("Running", "")
        self._on_step(stage)


def _set_state(name: str, message: str) -> None:
    """Rename the state of this flow run; only warn if the server fails."""
    with (
        optional(logger, f"the state '{name}' is not shown in Prefect"),
        temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}),
        get_client(sync_client=True, httpx_settings={"timeout": SECONDS}) as client,
    ):
        state = client.read_flow_run(flow_run.id).state
        if state is None or not state.is_running():
            return  # being cancelled
        changed = {"id": uuid4(), "name": name, "message": message, "timestamp": now("UTC")}
        client.set_flow_run_state(flow_run.id, state.model_copy(update=changed))
