"""Start processes, record them in a state file, and end exactly these processes.

They have no supervisor (regrade/processes/supervisor.py), which ends its command with the owner: the parts of a stack
outlive the command that started them. A process is identified by its id and start time, because the system reuses the id
of an ended process.
"""

import json
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from infra.stack.layout import ROOT, StackError
from regrade.processes.tree import end_tree, is_running
from regrade.settings.files import atomic_write

TAIL = 2000
"""Characters of a log that an error message shows."""
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that stop a command of the stack."""
_children: list["subprocess.Popen[bytes]"] = []
"""Children of this process."""


@dataclass(frozen=True)
class Known:
    """A process that the stack started."""

    name: str
    pid: int
    started: float
    log: str

    def process(self) -> psutil.Process | None:
        """Return the process, or None if it has ended."""
        try:
            process = psutil.Process(self.pid)
            same = process.create_time() == self.started
        except psutil.NoSuchProcess:
            return None
        return process if same and is_running(process) else None


def interrupt_on_stop_signals() -> None:
    """Raise KeyboardInterrupt on each stop signal, so that what was started is ended."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.default_int_handler)


def spawn(
    command: Sequence[str], environment: Mapping[str, str], log: Path, *, session: bool
) -> "subprocess.Popen[bytes]":
    """Start a process whose output is appended to a log; Ctrl-C does not reach one in a new session."""
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=session,
        )


def start(name: str, command: Sequence[str], environment: Mapping[str, str], log: Path) -> Known:
    """Start a part of the stack."""
    process = spawn(command, environment, log, session=True)
    _children.append(process)
    return known(name, process.pid, log)


def known(name: str, pid: int, log: Path) -> Known:
    """Return a running process with its start time.

    Raises:
        StackError: If the process has ended.
    """
    try:
        return Known(name, pid, psutil.Process(pid).create_time(), str(log))
    except psutil.NoSuchProcess as error:
        raise ended(name, log) from error


def ended(name: str, log: Path) -> StackError:
    """Return the error for a part that ended unexpectedly, with the end of its log."""
    text = log.read_text(errors="replace")[-TAIL:] if log.exists() else ""
    return StackError(f"{name} ended unexpectedly. The end of {log}:\n{text.rstrip()}")


def end(part: Known, first: signal.Signals, seconds: float) -> None:
    """End a part and its descendants: send `first` to the part, and SIGKILL to all that is left after `seconds`."""
    process = part.process()
    if process is not None:
        end_tree(process, first, seconds)
        reap()


def reap() -> None:
    """Reap children that ended. A zombie keeps its id, so that a new Postgres believes that the old one still runs."""
    _children[:] = [child for child in _children if child.poll() is None]


def write_state(path: Path, supervisor: Known, parts: Sequence[Known]) -> None:
    """Write the state file atomically."""
    text = json.dumps({"supervisor": asdict(supervisor), "parts": [asdict(part) for part in parts]})
    with atomic_write(path) as file:
        file.write(text.encode())


def read_state(path: Path) -> tuple[Known | None, list[Known]]:
    """Return the supervisor and the parts in the order of their start; (None, []) without a state file."""
    if not path.exists():
        return None, []
    state = json.loads(path.read_text())
    return Known(**state["supervisor"]), [Known(**part) for part in state["parts"]]
