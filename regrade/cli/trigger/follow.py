"""Following a flow run that runs elsewhere: its states, log lines and progress, one line each."""

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    ArtifactFilterType,
    LogFilter,
)
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.sorting import LogSort

from regrade.cli.trigger.client import Server

POLL = 2.0
PROGRESS_SECONDS = 15.0
_LATE = timedelta(seconds=20)
"""Log lines of several processes reach the server in turns: this far back, some may still be missing."""
_WAITING = ("AwaitingConcurrencySlot", "AwaitingRetry")
"""Scheduled states in which a worker has been there."""


class NotInTimeError(Exception):
    """No worker took the flow run, or it did not end in time."""


class Follower:
    """What was said of one flow run so far."""

    def __init__(
        self, server: Server, flow_run_id: UUID, pool: str | None, say: Callable[[str], None]
    ) -> None:
        self.server = server
        self.flow_run_id = flow_run_id
        self.pool = pool
        self.say = say
        self._state = ""
        self._lines: set[UUID] = set()
        self._newest: LogFilter = self._log_filter({})
        self._progress = ""
        self._progress_at = -PROGRESS_SECONDS
        self._said_no_worker = False

    def follow(self, *, start_timeout: float, timeout: float | None) -> FlowRun:
        """Say what happens until the flow run has ended, and return it.

        Args:
            start_timeout: Seconds until a worker has to have taken it. Waiting for its turn does not count.
            timeout: Seconds until it has to have ended. None: as long as it takes.

        Raises:
            NotInTimeError: If it did not.
        """
        begin = unclaimed_since = time.monotonic()
        while True:
            flow_run = self.step()
            now = time.monotonic()
            if flow_run.state is not None and flow_run.state.is_final():
                return flow_run
            if flow_run.start_time is not None or flow_run.state_name in _WAITING:
                unclaimed_since = now
            elif now - unclaimed_since > 10:
                self._say_no_worker()
            if now - unclaimed_since > start_timeout:
                raise NotInTimeError(f"no worker took it in {start_timeout:.0f} s")
            if timeout is not None and now - begin > timeout:
                raise NotInTimeError(f"it did not end in {timeout:.0f} s")
            time.sleep(POLL)

    def step(self) -> FlowRun:
        """Say what is new."""
        flow_run = self.server.ask(lambda: self.server.client.read_flow_run(self.flow_run_id))
        self._say_lines()
        self._say_progress()
        if flow_run.state is not None and self._state != flow_run.state.name:
            self._state = flow_run.state.name or ""
            message = f": {flow_run.state.message}" if flow_run.state.message else ""
            self.say(f"{flow_run.name}: {self._state}{message}")
        return flow_run

    def _say_lines(self) -> None:
        found = self.server.ask(
            lambda: self.server.client.read_logs(
                log_filter=self._newest, limit=200, sort=LogSort.TIMESTAMP_ASC
            )
        )
        new = [line for line in found if line.id not in self._lines]
        for line in new:
            self._lines.add(line.id)
            if line.name == "prefect.task_runs" and line.level < logging.WARNING:
                continue  # that each task run has finished; our own lines say with what
            level = "" if line.level < logging.WARNING else f"{logging.getLevelName(line.level)} "
            message = line.message.replace("\n", "\n    ")
            self.say(f"  {line.timestamp.astimezone():%H:%M:%S} {level}{message}")
        if found and (new or len(found) == 200):
            last = found[-1].timestamp
            after = last - _LATE if len(found) < 200 else last
            self._newest = self._log_filter({"timestamp": {"after_": after}})
        if len(found) == 200:
            self._say_lines()

    def _say_progress(self) -> None:
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
            self.say(f"  {newest.description}")

    def _say_no_worker(self) -> None:
        if not self._said_no_worker and self.pool and not self.server.has_worker(self.pool):
            self._said_no_worker = True
            self.say(
                f"no worker of the pool '{self.pool}' is online; `prefect worker start --pool {self.pool}` starts one"
            )

    def _log_filter(self, more: dict[str, object]) -> LogFilter:
        return LogFilter.model_validate(
            {"flow_run_id": {"any_": [self.flow_run_id]}, "level": {"ge_": logging.INFO}, **more}
        )
