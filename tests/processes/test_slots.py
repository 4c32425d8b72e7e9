"""Slots of a machine: held by one process, freed however it ends, taken in order."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from regrade.processes.slots import machine_folder, take_slot
from regrade.settings.errors import OperationError

HOLDER = """
import sys, time
from pathlib import Path
from regrade.processes.slots import take_slot
name = sys.argv[2]
slot = take_slot(Path(sys.argv[1]), 1, name, lambda holders: print("waits for", holders, flush=True))
print("holds", flush=True)
sys.stdin.readline()
slot.release()
print("released", flush=True)
sys.stdin.readline()
"""


class Process:
    def __init__(self, folder: Path, name: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(folder), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go_on(self) -> None:
        assert self.process.stdin is not None
        print(file=self.process.stdin, flush=True)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Process]]:
    started: list[Process] = []

    def process(name: str) -> Process:
        started.append(Process(tmp_path, name))
        return started[-1]

    yield process
    for holder in started:
        holder.process.kill()
        holder.process.communicate()


def test_a_killed_holder_frees_the_slot(start: Callable[[str], Process]):
    first = start("first")
    assert first.line() == "holds"
    second = start("second")
    assert second.line() == "waits for first"
    first.process.kill()
    assert second.line() == "holds"


def test_processes_get_the_slot_in_their_order_and_are_told_who_holds_it(
    start: Callable[[str], Process],
):
    waiting = [start("0")]
    assert waiting[0].line() == "holds"
    for name in ("1", "2", "3"):
        waiting.append(start(name))
        assert waiting[-1].line() == "waits for 0"
    for holder, following in pairwise(waiting):
        holder.go_on()
        while (line := following.line()) != "holds":
            assert line.startswith("waits for")


def test_a_waiting_process_can_be_cancelled_and_the_next_one_moves_up(
    start: Callable[[str], Process],
):
    first = start("first")
    assert first.line() == "holds"
    second, third = start("second"), start("third")
    assert (second.line(), third.line()) == ("waits for first", "waits for first")
    time.sleep(0.2)  # a signal between the message and the wait is seen only when the wait ends
    for waiting in (second, third):
        waiting.process.send_signal(signal.SIGINT)
        assert waiting.process.wait(60) != 0  # the first one still holds the slot
    fourth = start("fourth")
    assert fourth.line() == "waits for first"
    first.go_on()
    assert fourth.line() == "holds"


def test_a_slot_is_held_until_the_last_process_that_inherited_it_ends(tmp_path: Path):
    waits: list[str] = []
    slot = take_slot(tmp_path, 1, "owner", waits.append)
    read, write = os.pipe()
    owner = os.fork()
    if owner == 0:  # a holder that ends without releasing, and leaves a child behind
        _child = subprocess.Popen(["cat"], stdin=read, pass_fds=[slot.descriptor])
        os._exit(0)  # while the child is referred to, or a warning is written
    os.waitpid(owner, 0)
    os.close(read)
    os.close(slot.descriptor)  # as by the kernel, if this process were killed

    def told(holder: str) -> None:
        waits.append(holder)
        os.close(write)  # the child ends

    take_slot(tmp_path, 1, "next", told).release()
    assert waits == ["owner"]


def test_two_slots_are_held_at_once_and_a_release_is_idempotent(tmp_path: Path):
    waits: list[str] = []
    first = take_slot(tmp_path, 2, "first", waits.append)
    second = take_slot(tmp_path, 2, "second", waits.append)
    first.release()
    first.release()
    take_slot(tmp_path, 2, "third", waits.append).release()
    second.release()
    assert waits == []
    with pytest.raises(ValueError, match="released"):
        _ = first.descriptor


def test_the_folder_belongs_to_this_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = machine_folder("engines")
    assert folder.parent.stat().st_mode & 0o777 == 0o700
    assert machine_folder("engines") == folder
    folder.rmdir()
    folder.parent.rmdir()
    folder.parent.symlink_to(tmp_path)
    with pytest.raises(OperationError, match="is not a folder of this user"):
        machine_folder("engines")
