"""The owner's side of an engine's process tree: guard, worker, and what vLLM starts itself."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from regrade.engines.vllm_process.channel import Channel
from regrade.engines.vllm_process.environment import worker_environment
from regrade.processes.tree import end_session

GRACE = 0.5
"""Seconds that an engine's processes get from SIGTERM to SIGKILL. They have nothing left to save, and vLLM 0.32 uses up
whatever it gets: its engine core waits for a worker that has nothing left to do."""


class EngineProcess:
    """A command under a guard, in a session of its own, with a channel to it. Ends when this process ends."""

    def __init__(self, command: Sequence[str], log: Path, *, grace: float = GRACE) -> None:
        """Start the command.

        Args:
            command: Finds its descriptors in the variables that `lifelines` names.
            log: Takes all output, after what is there already.
            grace: Seconds from SIGTERM to SIGKILL.
        """
        self._scratch = scratch = Path(tempfile.mkdtemp(prefix="regrade-engine-"))
        ours, theirs = socket.socketpair()
        lifeline, self._lifeline = os.pipe()
        self._grace = grace
        guard = [sys.executable, "-m", "regrade.processes.supervisor", "--lifeline", str(lifeline)]
        guard += ["--channel", str(theirs.fileno()), "--grace", str(grace)]
        guard += ["--scratch", str(scratch), "--", *command]
        with theirs, log.open("ab") as output:
            self._guard = subprocess.Popen(
                guard,
                env=worker_environment(os.environ, scratch),
                pass_fds=(lifeline, theirs.fileno()),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        os.close(lifeline)
        self.channel = Channel(ours)
        self._ended = False

    @property
    def pid(self) -> int:
        """Process id of the guard, which is also the session's id."""
        return self._guard.pid

    def end(self) -> int:
        """End all processes of the engine and return the guard's exit status; a second call does nothing more.

        Takes as long as the grace where something does not end by itself.
        """
        if not self._ended:
            self._ended = True
            self.channel.close()
            os.close(self._lifeline)
            if not self._wait(self._grace + 10):
                self._guard.kill()
                self._wait(10)
            end_session(self.pid)  # before the guard is reaped, so that its id is not another's
            shutil.rmtree(self._scratch, ignore_errors=True)  # where the guard could not
        return self._guard.wait()

    def _wait(self, seconds: float) -> bool:
        """Return whether the guard has ended within some seconds, without reaping it."""
        deadline = time.monotonic() + seconds
        options = os.WEXITED | os.WNOWAIT | os.WNOHANG
        with suppress(ChildProcessError):
            while os.waitid(os.P_PID, self.pid, options) is None:
                if time.monotonic() > deadline:
                    return False
                time.sleep(0.01)
        return True


def status_in_words(status: int) -> str:
    """Return what an exit status of the guard means, such as `signal SIGKILL`."""
    number = -status if status < 0 else status - 128
    with suppress(ValueError):
        return f"signal {signal.Signals(number).name}"
    return f"status {status}"
