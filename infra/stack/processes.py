"""Starting processes, remembering them, and ending exactly these.

A process is known by its id and its start time, so that one which got the id of a dead one is never taken for it.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from infra.stack.layout import ROOT, StackError

TAIL = 2000
_children: list["subprocess.Popen[bytes]"] = []
"""Those of this process."""


@dataclass(frozen=True)
class Known:
    """A process that the stack started."""

    name: str
    pid: int
    started: float
    log: str

    def process(self) -> psutil.Process | None:
        """Return it while it runs."""
        try:
            found = psutil.Process(self.pid)
            same = found.create_time() == self.started
        except psutil.NoSuchProcess:
            return None
        return found if same and _lives(found) else None


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
    """Return the mark of a process that runs.

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


def end(part: Known, how: int, seconds: float) -> None:
    """End a process and all below it: a signal to itself first, and what is left after some seconds is killed."""
    process = part.process()
    if process is None:
        return
    tree = [process, *_below(process)]
    _send(process, how)
    if not _wait(lambda: part.process() is None, seconds):
        tree += _below(process)  # what it started while it should have ended
    for one in tree:
        _send(one, signal.SIGKILL)
    _wait(lambda: not any(_lives(one) for one in tree), 10)
    reap()


def reap() -> None:
    """Ask how those of our processes ended that did: until then they keep their ids, and Postgres takes itself for alive."""
    _children[:] = [child for child in _children if child.poll() is None]


def _below(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _lives(process: psutil.Process) -> bool:
    """Whether it runs; one that ended and whose parent has not asked how (a zombie) does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _wait(met: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not met():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def _send(process: psutil.Process, how: int) -> None:
    try:
        process.send_signal(how)  # psutil refuses where the id is another process's by now
    except psutil.NoSuchProcess:
        return


def write_state(path: Path, supervisor: Known, parts: Sequence[Known]) -> None:
    """Keep what runs, whole or not at all."""
    text = json.dumps({"supervisor": asdict(supervisor), "parts": [asdict(part) for part in parts]})
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def read_state(path: Path) -> tuple[Known | None, list[Known]]:
    """Return the supervisor, and the parts in the order of their start; (None, []) where nothing was started."""
    if not path.exists():
        return None, []
    kept = json.loads(path.read_text())
    return Known(**kept["supervisor"]), [Known(**part) for part in kept["parts"]]


def ourselves(log: Path) -> Known:
    """Return this process."""
    return known("supervisor", os.getpid(), log)
