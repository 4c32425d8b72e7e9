"""The process that ends Prefect's temporary server when the command that started it is gone.

`python -m flows.tether FD MARK`: waits until the other end of the pipe is closed, which the kernel does however
the command ends. Prefect itself stops its server only when Python exits in order.
"""

import contextlib
import os
import sys

import psutil

MARK = "REGRADE_TETHER"
"""Environment variable by which the processes that a command started are known."""
SERVER = "prefect.server.api.server:create_app"
GRACE = 3.0


def main(descriptor: int, mark: str) -> None:
    """Wait for the end of the command, then end its server."""
    while os.read(descriptor, 1):
        pass
    servers = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if SERVER in process.cmdline() and process.environ().get(MARK) == mark:
                process.terminate()
                servers.append(process)
    for process in psutil.wait_procs(servers, timeout=GRACE)[1]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
