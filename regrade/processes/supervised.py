"""Start a command under a supervisor; find a port for it; functions for the command itself (`take_descriptor`, `end_with_supervisor`)."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from regrade.processes.supervisor import LIFELINE_VARIABLE


class SupervisedProcess:
    """A command and its supervisor, in a new session. Both end when this process ends, even by SIGKILL."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str],
        *,
        grace: float,
        channel: int | None = None,
        scratch: Path | None = None,
        output: Path | None = None,
        inherited: Sequence[int] = (),
    ) -> None:
        """Start the command.

        Args:
            command: Program and arguments.
            log: File to which all output is appended.
            environment: Environment variables of the command.
            grace: Seconds from SIGTERM to SIGKILL.
            channel: Descriptor of a socket for the command; see `take_descriptor`.
            scratch: Folder to remove after the command has ended.
            output: File to which stdout is appended. None: the log.
            inherited: Further descriptors that the supervisor keeps open, but not the command.
        """
        self._lifeline: int | None
        # The write end stays open until `end` is called or this process ends.
        lifeline, self._lifeline = os.pipe()
        self._grace, self._scratch = grace, scratch
        supervisor = (sys.executable, "-m", "regrade.processes.supervisor")
        options = ["--lifeline", str(lifeline), "--grace", str(grace)]
        options += [] if channel is None else ["--channel", str(channel)]
        options += [] if scratch is None else ["--scratch", str(scratch)]
        try:
            with log.open("ab") as errors, (output or log).open("ab") as printed:
                self._supervisor = subprocess.Popen(
                    [*supervisor, *options, "--", *command],
                    env=environment,
                    pass_fds=[lifeline, *([] if channel is None else [channel]), *inherited],
                    stdin=subprocess.DEVNULL,
                    stdout=printed,
                    stderr=errors,
                    start_new_session=True,  # only the owner receives Ctrl-C
                )
        except OSError:
            os.close(self._lifeline)
            raise
        finally:
            os.close(lifeline)

    @property
    def pid(self) -> int:
        """Process id of the supervisor; also the session id."""
        return self._supervisor.pid

    def has_ended(self, within: float = 0.0) -> bool:
        """Wait up to `within` seconds and return True if the supervisor has ended.

        It is not reaped, so that no other process can get its id.
        """
        deadline = time.monotonic() + within
        options = os.WEXITED | os.WNOWAIT | os.WNOHANG
        with suppress(ChildProcessError):
            while os.waitid(os.P_PID, self.pid, options) is None:
                if time.monotonic() >= deadline:
                    return False
                time.sleep(0.01)
        return True

    def end(self) -> int:
        """End all processes within about `grace` seconds, and return the supervisor's exit status. Idempotent."""
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
            if not self.has_ended(0.2):
                self._supervisor.terminate()  # a fork of this process may hold the lifeline, too
            if not self.has_ended(self._grace + 10):
                self._supervisor.kill()
                self.has_ended(10)
            from regrade.processes.tree import end_session  # noqa: PLC0415 - psutil is slow to import

            # Before the supervisor is reaped, because its id could then belong to another process.
            end_session(self.pid)
            if self._scratch is not None:
                shutil.rmtree(self._scratch, ignore_errors=True)  # if the supervisor was killed
        return self._supervisor.wait()


def free_port() -> int:
    """Return a port of 127.0.0.1 on which no server listens now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def take_descriptor(variable: str) -> int:
    """Return the descriptor in an environment variable; child processes inherit neither of them."""
    descriptor = int(os.environ.pop(variable))
    os.set_inheritable(descriptor, False)
    return descriptor


def end_with_supervisor(grace: float) -> None:
    """End this process and its descendants when the supervisor ends; `grace` is the time from SIGTERM to SIGKILL.

    A thread waits for this, because the main thread may run native code for a long time.
    """
    from regrade.processes.tree import end_descendants  # noqa: PLC0415 - as above

    lifeline = take_descriptor(LIFELINE_VARIABLE)

    def wait() -> None:
        while os.read(lifeline, 1):
            pass
        end_descendants(grace)
        os._exit(128 + signal.SIGTERM)

    threading.Thread(target=wait, name="lifeline", daemon=True).start()
