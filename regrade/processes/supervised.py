"""Start a command under a supervisor, and what such a command does with its descriptors."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from regrade.processes.supervisor import LIFELINE_VARIABLE


class SupervisedProcess:
    """A command and its supervisor, in a session of their own. Both end when this process ends, even by SIGKILL."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str],
        *,
        grace: float,
        channel: int | None = None,
        scratch: Path | None = None,
    ) -> None:
        """Start the command.

        Args:
            command: The program and its arguments.
            log: Takes all output, after its present content.
            environment: Variables of the command.
            grace: Seconds from SIGTERM to SIGKILL.
            channel: Descriptor of a socket for the command; see `take_descriptor`.
            scratch: Folder that is removed when the command has ended.
        """
        self._lifeline: int | None
        lifeline, self._lifeline = (
            os.pipe()
        )  # the write end stays open until `end` or this process's end
        self._grace, self._scratch = grace, scratch
        options = ["--lifeline", str(lifeline), "--grace", str(grace)]
        options += [] if channel is None else ["--channel", str(channel)]
        options += [] if scratch is None else ["--scratch", str(scratch)]
        with log.open("ab") as output:
            self._supervisor = subprocess.Popen(
                [sys.executable, "-m", "regrade.processes.supervisor", *options, "--", *command],
                env=environment,
                pass_fds=[lifeline] if channel is None else [lifeline, channel],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the owner
            )
        os.close(lifeline)

    @property
    def pid(self) -> int:
        """Process id of the supervisor, which is also the session's id."""
        return self._supervisor.pid

    def has_ended(self, within: float = 0.0) -> bool:
        """Return whether the supervisor ends within some seconds; it is not reaped, so its id stays its own."""
        deadline = time.monotonic() + within
        options = os.WEXITED | os.WNOWAIT | os.WNOHANG
        with suppress(ChildProcessError):
            while os.waitid(os.P_PID, self.pid, options) is None:
                if time.monotonic() >= deadline:
                    return False
                time.sleep(0.01)
        return True

    def end(self) -> int:
        """End all processes within about the grace, and return the supervisor's exit status. May be called again."""
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
            if not self.has_ended(self._grace + 10):
                self._supervisor.kill()
                self.has_ended(10)
            from regrade.processes.tree import end_session  # noqa: PLC0415 - psutil is slow to import

            end_session(
                self.pid
            )  # before the supervisor is reaped, so that its id is not another's
            if self._scratch is not None:
                shutil.rmtree(self._scratch, ignore_errors=True)  # if the supervisor could not
        return self._supervisor.wait()


def take_descriptor(variable: str) -> int:
    """Return the descriptor that an environment variable names, and take both away from our children."""
    descriptor = int(os.environ.pop(variable))
    os.set_inheritable(descriptor, False)
    return descriptor


def end_with_supervisor(grace: float) -> None:
    """From now on, end this process and its descendants when the supervisor is gone, `grace` seconds after SIGTERM.

    A thread waits for it, since the main thread may be inside native code for long.
    """
    from regrade.processes.tree import end_descendants  # noqa: PLC0415 - as above

    lifeline = take_descriptor(LIFELINE_VARIABLE)

    def wait() -> None:
        while os.read(lifeline, 1):
            pass
        end_descendants(grace)
        os._exit(128 + signal.SIGTERM)

    threading.Thread(target=wait, name="lifeline", daemon=True).start()
