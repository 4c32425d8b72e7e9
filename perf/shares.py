"""Simulate many machines that generate one answer set: how long it takes, what is generated twice, commits and requests.

    python -m perf.shares                    # perf/results/shares.json
    python -m perf.shares --machines 8 --questions 100000 --order circle

The machines publish as `regrade.shares` says, and see only what is published. Speeds vary between them by a third; some stop
for ever at a random time, with what they have not published. `seconds / ideal` compares with a division of the work by
somebody who knows everything. Nothing is generated, so the figures hold for no particular machine: only ratios are told.

`order` is the order in which a machine walks the questions of others once its own part is done: `blocks` is that of
regrade; `circle` walks on from the end of its own part, behind the machine that works there.
"""

import argparse
import heapq
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from multiprocessing import get_context
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from perf.measuring import report
from regrade.answers.rows import RowStates, ShardStates
from regrade.jobs.shares import BLOCK, publish_interval

ORDERS = ("blocks", "circle")
HUB_REQUESTS = 9
"""Requests of a commit to the Hub besides the shards of others: head, listing, manifest, upload, commit, reading back
(`perf/hub_requests.py` counts them)."""


@dataclass
class Machine:
    """A simulated machine; times in seconds, work in blocks of questions."""

    number: int
    seconds_per_block: float
    dies_at: float
    walk: Iterator[int]
    unpublished: list[int] = field(default_factory=list)
    rest: float = 0.0
    """Seconds spent on a block that is not done."""


def own_then(
    order: str, blocks: int, number: int, of: int, done: NDArray[np.bool_]
) -> Iterator[int]:
    """Yield the blocks that a machine generates next; `done` are those published, as it last saw them."""
    start, end = blocks * number // of, blocks * (number + 1) // of
    for block in range(start, end):
        if not done[block]:
            yield block
    if order == "circle":
        for block in chain(range(end, blocks), range(start)):
            if not done[block]:
                yield block
        return
    rng = random.Random(number)
    mine = np.zeros(blocks, dtype=np.bool_)
    mine[start:end] = True
    while len(left := np.flatnonzero(~done & ~mine)):
        # As many random ones as are likely to be published before the next look.
        for block in rng.sample(left.tolist(), min(len(left), 1000)):
            if not done[block]:
                mine[block] = True
                yield block


def simulate(
    machines: int, questions: int, hours: float, order: str, dying: float, seed: int = 0
) -> dict[str, Any]:
    """Return a row of results.

    Args:
        machines: Number of machines.
        questions: Number of questions.
        hours: Hours that all machines would need if no work was wasted and none died.
        order: One of `ORDERS`.
        dying: Share of the machines that stop for ever.
        seed: Seed of speeds and deaths.
    """
    rng = random.Random(seed)
    blocks = -(-questions // BLOCK)
    interval = publish_interval(machines, 60.0)
    done = np.zeros(blocks, dtype=np.bool_)
    mean = hours * 3600 * machines / blocks
    all_machines = []
    for number in range(machines):
        dies = rng.random() < dying and number > 0
        all_machines.append(
            Machine(
                number,
                mean * rng.uniform(2 / 3, 4 / 3),
                rng.uniform(0, hours * 3600) if dies else float("inf"),
                own_then(order, blocks, number, machines, done),
            )
        )
    # Events: commits. A machine knows what is published at its last commit, and chooses the work until the next by it.
    events = [(0.0, machine.number) for machine in all_machines]
    commits = generated = lost = 0
    now = 0.0
    while not done.all():
        now, number = heapq.heappop(events)
        machine = all_machines[number]
        if now >= machine.dies_at:
            lost += len(machine.unpublished)
            continue
        new = [block for block in machine.unpublished if not done[block]]
        done[new] = True
        commits += bool(new)
        # The first commits are spread over an interval.
        pause = interval if now else interval * (number + 1) / machines
        room = int((pause + machine.rest) / machine.seconds_per_block)
        machine.unpublished = list(islice(machine.walk, room))
        took = len(machine.unpublished) * machine.seconds_per_block
        generated += len(machine.unpublished)
        if len(machine.unpublished) < room:  # all is published, or made by this machine
            pause, machine.rest = max(took, 1.0), 0.0
        else:
            machine.rest += pause - took
        heapq.heappush(events, (now + pause, number))
    doubled = generated - blocks - lost
    speed = sum(
        min(1.0, m.dies_at / now if now else 1.0) / m.seconds_per_block for m in all_machines
    )
    ideal = blocks / speed
    return {
        "machines": machines,
        "questions": questions,
        "order": order,
        "dying %": round(100 * dying),
        "interval s": round(interval),
        "hours": round(now / 3600, 2),
        "seconds / ideal": round(now / ideal, 3),
        "generated twice %": round(100 * doubled / blocks, 2),
        "lost with machines %": round(100 * lost / blocks, 2),
        "commits": commits,
        "commits / h": round(commits / (now / 3600), 1),
        "requests / h": round((commits * HUB_REQUESTS + commits * machines) / (now / 3600)),
    }


def merge_seconds(rows: int, shards: int, new: int) -> dict[str, Any]:
    """Measure the part of a commit that grows with the answer set: which of the new rows are already there."""
    known = ShardStates()
    before = psutil.Process().memory_info().rss
    for shard in range(shards):
        states = RowStates()
        first = rows * shard // shards
        states.done = {(f"{n:016x}", 0) for n in range(first, rows * (shard + 1) // shards)}
        known[str(shard)] = states
    known.together(list(known)[:-1])  # the commit before
    keys = [(f"{n:016x}", 0) for n in range(rows, rows + new)]
    started = time.perf_counter()
    stored = known.together(known)
    taken = sum(key in stored.done for key in keys)
    seconds = time.perf_counter() - started
    memory = psutil.Process().memory_info().rss - before
    assert not taken  # noqa: S101 - they are new
    return {
        "rows": rows,
        "shards": shards,
        "new rows": new,
        "seconds": round(seconds, 3),
        "MiB": round(memory / 2**20),
    }


def main() -> None:
    """Simulate, measure and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--machines", type=int, nargs="+", default=[2, 8, 64, 1000])
    parser.add_argument("--questions", type=int)
    parser.add_argument("--hours", type=float)
    parser.add_argument("--order", choices=ORDERS, nargs="+", default=list(ORDERS))
    parser.add_argument("--dying", type=float, nargs="+", default=[0.0, 0.25])
    options = parser.parse_args()
    rows = []
    for machines in options.machines:
        questions = options.questions or {2: 10**4, 8: 10**5, 64: 10**6}.get(machines, 10**8)
        hours = options.hours or {2: 1.0, 8: 4.0, 64: 24.0}.get(machines, 240.0)
        for dying in options.dying:
            for order in options.order:
                rows.append(simulate(machines, questions, hours, order, dying))
                print(rows[-1], flush=True)
    sizes = [(n, max(1, n // 5_000), 5_000) for n in (10**4, 10**5, 10**6)]
    # Each in a new process: memory that the simulations have given back would be taken again, and not be counted.
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        merges = pool.starmap(merge_seconds, sizes, chunksize=1)
    report("shares", rows, merges=merges)
    for merge in merges:
        print(merge)


if __name__ == "__main__":
    main()
