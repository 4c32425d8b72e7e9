"""Supervise a command: end its process tree when the command or its owner ends.

`python -m regrade.processes.supervisor --lifeline FD [--channel FD] [--scratch FOLDER] [--grace SECONDS] -- COMMAND ...`

If the owner or the command is killed, processes could remain that hold a GPU or a port. Therefore the supervisor adopts
orphans and waits until the owner or the command ends. Then it sends SIGTERM to all remaining processes, SIGKILL after
the grace period, removes the scratch folder and exits with the command's status.

A lifeline is a pipe whose write end only the owner holds. Its read end reports end of file when the owner ends, even by
SIGKILL. If a fork of the owner also holds the pipe, the signal of `PR_SET_PDEATHSIG` (prctl(2), Linux only) reports the
owner's end. This signal also arrives when only the thread ends that started the supervisor, so the parent's process id
is compared.
"""

# Start the command as early as possible: no slow imports. argparse takes as long as all these together.
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType

CHANNEL_VARIABLE = "REGRADE_ENGINE_CHANNEL"
"""Environment variable with the descriptor of the command's socket to the owner (`--channel`)."""
LIFELINE_VARIABLE = "REGRADE_ENGINE_LIFELINE"
"""Environment variable with the descriptor of a lifeline whose owner is the supervisor."""

_ENDING = (signal.SIGTERM, signal.SIGHUP)
_PARENT_ENDED = signal.SIGUSR1
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main(arguments: Sequence[str]) -> int:
    """Run the command until it or its owner ends, and return the command's exit status.

    Args:
        arguments: Options, each followed by its value; `--`; the command.
    """
    parent = os.getppid()
    split = arguments.index("--")
    options = dict(zip(arguments[:split:2], arguments[1:split:2], strict=True))
    wakeups = _wake_on_signals()
    command = _start(arguments[split + 1 :], options.get("--channel"))
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_PDEATHSIG, _PARENT_ENDED)
    from regrade.processes.tree import end_descendants  # noqa: PLC0415 - psutil is slow to import

    try:
        _wait(command, int(options["--lifeline"]), wakeups, parent)
        # At its exit, Python no longer handles signals: a late SIGTERM would replace the command's status.
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        end_descendants(float(options.get("--grace", 3.0)))
        status = command.wait()
    finally:
        if "--scratch" in options:
            import shutil  # noqa: PLC0415 - as above

            shutil.rmtree(options["--scratch"], ignore_errors=True)
    return status if status >= 0 else 128 - status


def _wake_on_signals() -> int:
    """Return a descriptor from which the numbers of received signals are read."""

    def ignore(number: int, frame: FrameType | None) -> None:
        """Do nothing, because the number arrives through the wakeup descriptor."""

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (*_ENDING, signal.SIGCHLD, _PARENT_ENDED):
        signal.signal(number, ignore)
    return reader


def _start(command: Sequence[str], channel: str | None) -> "subprocess.Popen[bytes]":
    """Start the command with a lifeline of this process, and pass the channel on."""
    lifeline, _ = os.pipe()  # only this process holds the write end, until it ends
    variables = {LIFELINE_VARIABLE: str(lifeline)}
    if channel is not None:
        variables[CHANNEL_VARIABLE] = channel
    passed = [int(descriptor) for descriptor in variables.values()]
    process = subprocess.Popen(
        command, env={**os.environ, **variables}, pass_fds=passed, stdin=subprocess.DEVNULL
    )
    for descriptor in passed:
        os.close(descriptor)
    return process


def end_with_parent(parent: int) -> None:
    """Make the kernel kill this process when its parent ends (Linux only).

    Args:
        parent: Process id of the parent, which may have ended before the call.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def _prctl(option: int, value: int) -> None:
    """Set an attribute of this process on Linux; do nothing on other systems."""
    if sys.platform != "linux":
        return
    import ctypes  # noqa: PLC0415 - as above

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value}) failed")


def _wait(command: "subprocess.Popen[bytes]", lifeline: int, wakeups: int, parent: int) -> None:
    """Wait until the command ends, its owner ends, or a signal requests the end."""
    with selectors.DefaultSelector() as selector:
        selector.register(lifeline, selectors.EVENT_READ)
        selector.register(wakeups, selectors.EVENT_READ)
        while command.poll() is None and os.getppid() == parent:
            ready = {key.fd for key, _ in selector.select()}
            if lifeline in ready and not os.read(lifeline, 1):
                return
            if wakeups in ready and any(number in _ENDING for number in os.read(wakeups, 4096)):
                return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
