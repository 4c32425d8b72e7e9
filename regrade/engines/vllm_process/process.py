"""Owner side of an engine's process tree: supervisor, worker, and the processes that vLLM starts."""

import os
import shutil
import socket
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from regrade.engines.vllm_process.channel import Channel
from regrade.engines.vllm_process.environment import engine_python, worker_environment
from regrade.engines.vllm_process.logs import last_error, status_in_words
from regrade.processes.slots import Slot
from regrade.processes.supervised import SupervisedProcess

GRACE = 0.1
"""Seconds from SIGTERM to SIGKILL for an engine's processes. Short, because they have nothing to save, and vLLM 0.32 does
not end earlier: its engine core waits for an idle worker."""


class EngineProcess(SupervisedProcess):
    """A supervised command with a channel to its owner and a scratch folder for temporary files."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        grace: float = GRACE,
        hub_token: bool = False,
        slot: Slot | None = None,
    ) -> None:
        """Start the command.

        Args:
            command: Program and arguments. It finds the channel's descriptor in the variable `CHANNEL_VARIABLE`.
            log: File to which all output is appended; its folder is created.
            grace: Seconds from SIGTERM to SIGKILL.
            hub_token: The engine gets the token of the Hub.
            slot: Slot to hold until all processes have ended, even if this process is killed; free if the command cannot be started.
        """
        self._slot = slot
        self.log = log
        with ExitStack() as undone:
            if slot is not None:
                undone.callback(slot.release)
            log.parent.mkdir(parents=True, exist_ok=True)
            self._log_start = log.stat().st_size if log.exists() else 0
            scratch = Path(tempfile.mkdtemp(prefix="regrade-engine-"))
            undone.callback(shutil.rmtree, scratch, ignore_errors=True)
            owner_end, worker_end = socket.socketpair()
            undone.callback(owner_end.close)
            with worker_end:
                super().__init__(
                    command,
                    log,
                    worker_environment(os.environ, scratch, hub_token=hub_token),
                    grace=grace,
                    channel=worker_end.fileno(),
                    scratch=scratch,
                    inherited=[] if slot is None else [slot.descriptor],
                )
            undone.pop_all()
        self.channel = Channel(owner_end)

    @classmethod
    def of_worker(cls, log: Path, *, hub_token: bool, slot: Slot | None = None) -> Self:
        """Start a worker, which imports vLLM before it is told what to load."""
        command = [engine_python(), "-m", "regrade.engines.vllm_process.worker"]
        return cls(command, log, hub_token=hub_token, slot=slot)

    def end_with_reason(self) -> str:
        """End all processes, and return why the command ended: the last error in its log, or its exit status."""
        status = self.end()
        reason = last_error(self.log, self._log_start) or status_in_words(status)
        return reason.rstrip(".")

    def end(self) -> int:
        """Close the channel, end all processes, free the slot, and return the supervisor's exit status. Idempotent."""
        self.channel.close()
        status = super().end()
        if self._slot is not None:
            self._slot.release()
        return status


_early: list[tuple[EngineProcess, bool]] = []
"""The worker that was started before its run, and whether it got the token of the Hub; empty if there is none."""


def start_early(log: Path, *, hub_token: bool) -> None:
    """Start a worker that the next engine of this process takes: it imports vLLM, which takes seconds, while the run is prepared."""
    end_early()
    _early.append((EngineProcess.of_worker(log, hub_token=hub_token), hub_token))


def take_early(*, hub_token: bool) -> EngineProcess | None:
    """Return the worker that was started early; None if there is none, it has ended, or it was started with other rights."""
    while _early:
        process, given = _early.pop()
        if given == hub_token and not process.has_ended():
            return process
        process.end()
    return None


def end_early() -> None:
    """End the worker that was started early, if no engine took it."""
    while _early:
        _early.pop()[0].end()
