"""Log the states, log lines and progress of a flow run on another machine until it ends."""

import logging
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    ArtifactFilterType,
    LogFilter,
)
from prefect.client.schemas.objects import FlowRun, Log
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.sorting import LogSort

from regrade.orchestration.remote.client import CANCEL_SECONDS, PrefectServer, page
from regrade.settings.errors import RegradeError, UserError
from regrade.text.files import write_file

logger = logging.getLogger("regrade.trigger")
POLL = 2.0
"""Seconds between two reads of the flow run."""
PROGRESS_SECONDS = 15.0
"""Shortest time between two lines of progress, in seconds."""
_PAGE = 200
"""Log lines per request; the server's limit."""
_LATE = timedelta(seconds=20)
"""Log lines arrive out of order; read this far back again."""
_WAITING = ("AwaitingConcurrencySlot", "AwaitingRetry")
"""Scheduled states that only a worker sets."""


class Follower:
    """Follows a flow run; remembers the lines that it has logged."""

    def __init__(self, server: PrefectServer, flow_run_id: UUID, pool: str | None) -> None:
        self.server = server
        self.flow_run_id = flow_run_id
        self.pool = pool
        self._state = ""
        self._lines: set[UUID] = set()
        self._newest: LogFilter = self._log_filter({})
        self._progress = ""
        self._progress_at = -PROGRESS_SECONDS
        self._warned = False

    def follow(self, *, start_timeout: float, timeout: float | None) -> tuple[FlowRun, str]:
        """Follow the flow run to its end; cancel it if it is late.

        Args:
            start_timeout: Seconds to wait for a worker to start it. Waiting for a concurrency slot does not count.
            timeout: Seconds to wait for its end. None: no limit.

        Returns:
            The ended flow run, and the reason if it was late and cancelled, else "".
        """
        begin = unclaimed_since = time.monotonic()
        while True:
            flow_run = self.step()
            now = time.monotonic()
            if flow_run.state is not None and flow_run.state.is_final():
                return flow_run, ""
            if flow_run.start_time is not None or flow_run.state_name in _WAITING:
                unclaimed_since = now
            elif now - unclaimed_since > 10:
                self._warn_of_no_worker()
            if now - unclaimed_since > start_timeout:
                return self._give_up(f"no worker took it in {start_timeout:.0f} s")
            if timeout is not None and now - begin > timeout:
                return self._give_up(f"it did not end in {timeout:.0f} s")
            time.sleep(POLL)

    def step(self) -> FlowRun:
        """Log new lines, progress and the state; return the flow run."""
        flow_run = self.server.read(self.flow_run_id)
        self._log_lines()
        self._log_progress()
        if flow_run.state is not None and self._state != flow_run.state.name:
            self._state = flow_run.state.name or ""
            message = f": {flow_run.state.message}" if flow_run.state.message else ""
            logger.info("%s: %s%s", flow_run.name, self._state, message)
        return flow_run

    def _give_up(self, problem: str) -> tuple[FlowRun, str]:
        self.step()
        return self.server.cancel(self.flow_run_id), f"Cancelled: {problem}."

    def _log_lines(self) -> None:
        offset, more = 0, True
        wanted = self._newest
        while more:
            found = self._read_logs(wanted, offset)
            for line in found:
                if line.id not in self._lines:
                    self._lines.add(line.id)
                    _show(line)
            if found:
                self._newest = self._log_filter(
                    {"timestamp": {"after_": found[-1].timestamp - _LATE}}
                )
            offset += len(found)
            more = len(found) == _PAGE

    def _read_logs(self, wanted: LogFilter, offset: int) -> list[Log]:
        return self.server.ask(
            lambda: self.server.client.read_logs(
                log_filter=wanted, limit=_PAGE, offset=offset, sort=LogSort.TIMESTAMP_ASC
            )
        )

    def _log_progress(self) -> None:
        if time.monotonic() - self._progress_at < PROGRESS_SECONDS:
            return
        wanted = ArtifactFilter(
            flow_run_id=ArtifactFilterFlowRunId(any_=[self.flow_run_id]),
            type=ArtifactFilterType(any_=["progress"]),
        )
        found = self.server.ask(lambda: self.server.client.read_artifacts(artifact_filter=wanted))
        if not found:
            return
        newest = max(found, key=lambda artifact: str(artifact.updated))
        self._progress_at = time.monotonic()
        if newest.description and newest.description != self._progress:
            self._progress = newest.description
            logger.info("  %s", newest.description)

    def _warn_of_no_worker(self) -> None:
        if not self._warned and self.pool and not self.server.has_worker(self.pool):
            self._warned = True
            logger.warning(
                "no worker of the pool '%s' is online; `regrade worker --pool %s` starts one",
                self.pool,
                self.pool,
            )

    def _log_filter(self, more: dict[str, object]) -> LogFilter:
        return LogFilter.model_validate(
            {"flow_run_id": {"any_": [self.flow_run_id]}, "level": {"ge_": logging.INFO}, **more}
        )


def _show(line: Log) -> None:
    if line.name == "prefect.task_runs" and line.level < logging.WARNING:
        return  # "Finished in state Completed()": regrade's own lines have more
    level = "" if line.level < logging.WARNING else f"{logging.getLevelName(line.level)} "
    message = line.message.replace("\n", "\n    ")
    logger.log(line.level, "  %s %s%s", f"{line.timestamp.astimezone():%H:%M:%S}", level, message)


# A flow run that this process starts, and cancels if it cannot follow it to its end.


class StartedRun:
    """A flow run that is about to be started, or was started, by this process."""

    def __init__(self) -> None:
        self.flow_run: FlowRun | None = None
        """None until the server has confirmed that it is created."""
        self._key = uuid4().hex
        """Idempotency key."""

    def start(
        self,
        server: PrefectServer,
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
    def cancelled_on_failure(self, server: PrefectServer) -> Iterator[None]:
        """Cancel the flow run if the block is interrupted or raises an error, which is raised again."""
        try:
            yield
        except KeyboardInterrupt:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)  # CI sends several; one is enough
            self._cancel(server, "interrupted")
            raise
        except UserError:
            if self.flow_run is not None:  # else the server refused the parameters or the login
                self._cancel(server, "failed")
            raise
        except Exception:
            self._cancel(server, "failed")
            raise

    def _cancel(self, server: PrefectServer, why: str) -> None:
        server.patience = CANCEL_SECONDS / 2
        try:
            if self.flow_run is None:  # the response to its creation may be lost
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
