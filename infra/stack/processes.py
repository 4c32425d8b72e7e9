"""Start processes, remember them in a file, and end exactly these.

A process is known by its id and its start time, so that one which got the id of a dead one is never taken for it.
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

TAIL = 2000
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
            found = psutil.Process(self.pid)
            same = found.create_time() == self.started
        except psutil.NoSuchProcess:
            return None
        return found if same and is_running(found) else None


def start(name: str, command: Sequence[str], environment: Mapping[str, str], log: Path) -> Known:
    """Start a process in a session of its own, so that Ctrl-C reaches only who started it. Output goes to its log."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _children.append(process)
    return known(name, process.pid, log)


def known(name: str, pid: int, log: Path) -> Known:
    """Return a running process with its start time.

    Raises:
        StackError: If it has ended already.
    """
    try:
        return Known(name, pid, psutil.Process(pid).create_time(), str(log))
    except psutil.NoSuchProcess as error:
        raise ended(name, log) from error


def ended(name: str, log: Path) -> StackError:
    """Return the error of a part that ended by itself, with the last of its log."""
    text = log.read_text(errors="replace")[-TAIL:] if log.exists() else ""
    return StackError(f"{name} ended by itself. The last of {log}:\n{text.rstrip()}")


def end(part: Known, first: signal.Signals, seconds: float) -> None:
    """End a part and all below it: a signal to itself first, SIGKILL to the rest after some seconds."""
    process = part.process()
    if process is not None:
        end_tree(process, first, seconds)
        reap()


def reap() -> None:
    """Reap our processes that ended: until then they keep their ids, and Postgres believes that it still runs."""
    _children[:] = [child for child in _children if child.poll() is None]


def write_state(path: Path, supervisor: Known, parts: Sequence[Known]) -> None:
    """Write the state file atomically."""
    text = json.dumps({"supervisor": asdict(supervisor), "parts": [asdict(part) for part in parts]})
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def read_state(path: Path) -> tuple[Known | None, list[Known]]:
    """Return the supervisor, and the parts in the order of their start; (None, []) if nothing was started."""
    if not path.exists():
        return None, []
    kept = json.loads(path.read_text())
    return Known(**kept["supervisor"]), [Known(**part) for part in kept["parts"]]
