"""The process that runs a server for a command, and ends it when the command is gone.

`python -m regrade.processes.tether FD -- COMMAND ...`: ends the server once the other end of the pipe is closed, which the kernel
does however the command ends, and ends as soon as the server does. Only the standard library: the server must not
wait for us.
"""

import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType

SERVER = "prefect.server.api.server:create_app"
GRACE = 3.0
"""Seconds from SIGTERM to SIGKILL."""


def main(arguments: Sequence[str]) -> int:
    """Run the command until it ends or the pipe is closed, and return the status to end with."""
    lifeline, command = int(arguments[0]), arguments[2:]
    ended, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, _note)
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    with selectors.DefaultSelector() as selector:
        selector.register(lifeline, selectors.EVENT_READ)
        selector.register(ended, selectors.EVENT_READ)
        while server.poll() is None:
            ready = {key.fd for key, _ in selector.select()}
            if lifeline in ready or signal.SIGTERM in os.read(ended, 64):
                server.terminate()
                break
    try:
        return server.wait(GRACE)
    except subprocess.TimeoutExpired:
        server.kill()
        return server.wait()


def _note(number: int, frame: FrameType | None) -> None:
    """Do nothing here: the number arrives through the wakeup descriptor."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
