"""The commands `backup` and `restore` of `python -m infra.stack`."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.stack import backup, growth, parts, postgres, processes, restore
from infra.stack.layout import Layout, StackError

START_SECONDS = 60
"""Longest start of Postgres, in seconds."""


def back_up(place: Layout, file: Path) -> int:
    """Write a backup, whether the stack runs or not, and say what is not in it."""
    if not postgres.has_cluster(place):
        raise StackError(f"There is no stack in {place.home}. Name its folder with REGRADE_STACK.")
    folders = backup.own_folders(place)
    with _postgres(place):
        manifest = backup.write(place, file, folders)
    size = growth.readable(file.stat().st_size)
    print(f"wrote {file} ({size}): {', '.join(['both databases', *manifest.folders])}")
    print("not in it: logs, and passwords and logins (a restore creates new ones)")
    if "answers" not in folders:
        print(f"not in it: the answers, which are in {place.answers}")
    if spools := growth.spools(place):
        print(
            f"not in it: answers that are not published yet ({spools} in {place.spool}): regrade publish"
        )
    return 0


def put_back(place: Layout, file: Path, *, replace: bool) -> int:
    """Restore a backup into a stack that does not run."""
    supervisor, left = processes.read_state(place.state)
    if any(part.process() for part in (supervisor, *left) if part is not None):
        raise StackError("The stack is running. Stop it first: make stack-down")
    backup.read_manifest(file)  # before anything is created
    with _postgres(place):
        manifest = restore.restore(place, file, replace=replace)
        unfinished = restore.unfinished_runs(place)
    print(f"restored {file} of {manifest.made}: {', '.join(['both databases', *manifest.folders])}")
    if manifest.answers != place.answers and "answers" not in manifest.folders:
        print(f"the answers were in {manifest.answers}: set REGRADE_ANSWERS")
    if unfinished:
        print(
            f"{unfinished} flow runs had not ended: cancel them on Prefect's pages, or start them again"
        )
    print("start it: make stack")
    return 0


@contextmanager
def _postgres(place: Layout) -> Iterator[None]:
    """Run Postgres during the block, unless it runs already."""
    place.make()
    postgres.make_cluster(place)
    part = parts.database(place)
    if part.ready():
        if not (place.cluster / "postmaster.pid").exists():
            raise StackError(
                f"Port {place.postgres_port} is taken by another Postgres, perhaps of a stack in another folder. Set "
                "REGRADE_POSTGRES_PORT to a free port."
            )
        yield
        return
    processes.interrupt_on_stop_signals()
    running = processes.start(
        part.name, part.command, part.environment, place.logs / "postgres.log"
    )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not part.ready():
            if running.process() is None or time.monotonic() > deadline:
                raise processes.ended(part.name, Path(running.log))
            time.sleep(0.2)
        yield
    finally:
        processes.end(running, *postgres.STOP)
