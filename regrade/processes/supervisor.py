"""The process above an engine: takes the engine's whole tree down when either end goes away.

`python -m regrade.processes.supervisor --lifeline FD --channel FD [--grace SECONDS] [--scratch FOLDER] -- COMMAND ...`

The owner of the engine may be killed outright, and so may the engine's own top process, which would leave the
processes that hold the GPU. The guard outlives both: it adopts orphans, waits for either end, sends SIGTERM to
all that is left, SIGKILL after the grace, removes the scratch folder and ends as the engine ended. Only stdlib and
psutil here: the guard must be up before anything slow begins.
"""

import argparse
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType

from regrade.processes.lifelines import (
    CHANNEL_VARIABLE,
    LIFELINE_VARIABLE,
    adopt_orphans,
    signal_when_parent_ends,
)
from regrade.processes.tree import end_descendants

_ENDING = (signal.SIGTERM, signal.SIGHUP)
_PARENT_ENDED = signal.SIGUSR1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command until it ends or the owner does, and return the exit status to end with."""
    options = _parse(arguments)
    parent = os.getppid()
    wakeups = _wake_on_signals()
    adopt_orphans()
    signal_when_parent_ends(_PARENT_ENDED)
    engine = _start(options.command, options.channel)
    try:
        _wait(engine, options.lifeline, wakeups, parent)
        end_descendants(options.grace)
        status = engine.wait()
    finally:
        if options.scratch is not None:
            shutil.rmtree(options.scratch, ignore_errors=True)
    return status if status >= 0 else 128 - status


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="regrade.processes.supervisor", description=__doc__)
    parser.add_argument("--lifeline", type=int, required=True, help="read end; ends with the owner")
    parser.add_argument("--channel", type=int, required=True, help="socket for the command")
    parser.add_argument("--grace", type=float, default=3.0, help="seconds from SIGTERM to SIGKILL")
    parser.add_argument("--scratch", help="folder to remove at the end")
    parser.add_argument("command", nargs="+")
    return parser.parse_args(arguments)


def _wake_on_signals() -> socket.socket:
    def note(number: int, frame: FrameType | None) -> None:
        """Do nothing here: the number arrives through the wakeup descriptor."""

    receiver, sender = socket.socketpair()
    receiver.setblocking(False)
    sender.setblocking(False)
    signal.set_wakeup_fd(sender.detach(), warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (*_ENDING, signal.SIGCHLD, _PARENT_ENDED):
        signal.signal(number, note)
    return receiver


def _start(command: Sequence[str], channel: int) -> "subprocess.Popen[bytes]":
    """Start the engine with the channel, which only it keeps, and a lifeline that ends with this process."""
    lifeline, _ = os.pipe()  # the write end stays open, and here only, until this process ends
    environment = {
        **os.environ,
        CHANNEL_VARIABLE: str(channel),
        LIFELINE_VARIABLE: str(lifeline),
    }
    engine = subprocess.Popen(
        command, env=environment, pass_fds=(channel, lifeline), stdin=subprocess.DEVNULL
    )
    os.close(channel)
    os.close(lifeline)
    return engine


def _wait(
    engine: "subprocess.Popen[bytes]", lifeline: int, wakeups: socket.socket, parent: int
) -> None:
    """Wait until the engine ends, or its owner ends or asks for the end."""
    os.set_inheritable(lifeline, False)
    with selectors.DefaultSelector() as selector:
        selector.register(lifeline, selectors.EVENT_READ)
        selector.register(wakeups, selectors.EVENT_READ)
        while engine.poll() is None:
            ready = {key.fd for key, _ in selector.select()}
            if lifeline in ready and not os.read(lifeline, 1):
                return
            if wakeups.fileno() in ready and any(n in _ENDING for n in wakeups.recv(4096)):
                return
            if os.getppid() != parent:
                return


if __name__ == "__main__":
    sys.exit(main())
