"""An engine's process tree, as its owner sees it: supervisor, worker, and the processes that vLLM starts."""

import os
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path

from regrade.engines.vllm_process.channel import Channel
from regrade.engines.vllm_process.environment import worker_environment
from regrade.processes.supervised import SupervisedProcess

GRACE = 0.5
"""Seconds that an engine's processes get from SIGTERM to SIGKILL. They have nothing left to save, and vLLM 0.32 uses up
whatever it gets: its engine core waits for a worker that has nothing left to do."""


class EngineProcess(SupervisedProcess):
    """A supervised command with a channel to it and a scratch folder for its temporary files."""

    def __init__(self, command: Sequence[str], log: Path, *, grace: float = GRACE) -> None:
        """Start the command.

        Args:
            command: Finds the channel in the variable `CHANNEL_VARIABLE`.
            log: Takes all output, after its present content.
            grace: Seconds from SIGTERM to SIGKILL.
        """
        scratch = Path(tempfile.mkdtemp(prefix="regrade-engine-"))
        ours, theirs = socket.socketpair()
        with theirs:
            super().__init__(
                command,
                log,
                worker_environment(os.environ, scratch),
                grace=grace,
                channel=theirs.fileno(),
                scratch=scratch,
            )
        self.channel = Channel(ours)

    def end(self) -> int:
        """Close the channel, end all processes, and return the supervisor's exit status. May be called again."""
        self.channel.close()
        return super().end()
