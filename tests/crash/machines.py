"""Machines that generate one answer set together, as processes with a test engine; some are killed.

    python -m tests.crash.machines [--own-locks] FOLDER SEED,MACHINES,KILLS,QUESTIONS ...

With `--own-locks`, each machine is granted every lock, as on a network file system whose locks reach only one client.
Plan, spool, merge and publishing are the real ones. Prints an account for each chain of kills as JSON. A process of its own, because the machines
are forked: a Prefect import for each of a hundred machines would take minutes.
"""

import fcntl
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from regrade.answers.local import LocalRepository
from regrade.answers.sets import find_set
from regrade.answers.spool import Spool, spool_folder
from regrade.answers.verify import verify
from regrade.engines.base import EngineInfo
from regrade.jobs.generate import Progress
from regrade.jobs.shares import Share
from regrade.records import Completion, Request
from regrade.settings import Reuse
from tasks import generate as generating
from tasks.generate import generate_missing
from tasks.plan import find_missing
from tasks.publish import publish_answers
from tasks.work import Work
from tests.sums import SERVER, plan_of

BATCH = 4


class Working:
    """A test engine: some milliseconds for each batch, and a text that names the process."""

    info = EngineInfo("vllm", "0", "cpu", "float32", 64, None, 0.0)

    def __init__(self, name: str, seconds: float, log: Path) -> None:
        self.name, self.seconds, self.log = name, seconds, log

    def generate(self, requests: Iterable[Request]) -> Iterator[list[Completion]]:
        batch: list[Completion] = []
        with self.log.open("a", buffering=1) as log:
            for request in requests:
                log.write(f"{request.key}\n")
                batch.append(Completion(request.key, "sent", text=self.name, latency=0.1))
                if len(batch) == BATCH:
                    time.sleep(self.seconds)
                    yield batch
                    batch = []
            yield batch


class NoArtifact:
    """Progress without a Prefect server."""

    def __init__(self, work: Work) -> None:
        pass

    def update(self, progress: Progress) -> None:
        pass


def machine(folder: Path, share: Share, questions: int, name: str, seconds: float) -> None:
    """Do what a flow run does for one answer set."""
    repository = LocalRepository(folder / "answers")
    plan = plan_of(questions)
    spool = Spool(
        spool_folder(repository.uri, plan.specification.answer_set_id, share.folder_suffix)
    )
    work = Work(plan, repository, spool, Reuse(), share)
    with spool:
        find_missing(work)
        if work.requests.rows:
            engine = Working(name, seconds, folder / f"asked-{name}.txt")
            generate_missing.fn(work, engine, SERVER)  # type: ignore[arg-type]
        publish_answers.fn(work)
    assert work.published is not None
    done = {"state": work.published.manifest.state, "ends_here": work.ends_here, "at": time.time()}
    (folder / f"done-{name}.json").write_text(json.dumps(done))


def start(folder: Path, share: Share, questions: int, name: str, seconds: float) -> int:
    """Return the id of a machine's process."""
    if pid := os.fork():
        return pid
    code = 1
    try:
        machine(folder, share, questions, name, seconds)
        code = 0
    finally:
        if code:
            sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def chain(folder: Path, seed: int, machines: int, kills: int, questions: int) -> dict[str, object]:
    """Kill machines at random times; some come back, with the same share or another; the last ones finish the set."""
    rng = random.Random(seed)
    running: dict[int, tuple[int, float]] = {}
    started = 0
    codes: Counter[int] = Counter()

    def begin(number: int) -> None:
        nonlocal started
        seconds = rng.choice([0.01, 0.02, 0.05])
        name = f"{started:03d}-{number}-of-{machines}"
        running[start(folder, Share(number, machines), questions, name, seconds)] = number, seconds
        started += 1

    def reap(pid: int, status: int) -> None:
        running.pop(pid)
        codes[os.waitstatus_to_exitcode(status)] += 1

    def reap_ended() -> None:
        while running and (ended := os.waitpid(-1, os.WNOHANG))[0]:
            reap(*ended)

    for number in range(1, machines + 1):
        begin(number)
    killed = 0
    while killed < kills:
        time.sleep(rng.uniform(0.0, 0.15))
        reap_ended()
        free = [n for n in range(1, machines + 1) if n not in [v[0] for v in running.values()]]
        if free and (not running or rng.random() < 0.6):
            begin(rng.choice(free))
        elif running:
            pid = rng.choice(list(running))
            os.kill(pid, 9)
            _, status = os.waitpid(pid, 0)
            reap(pid, status)
            killed += os.waitstatus_to_exitcode(status) == -9  # it may have ended just before
    last = time.time()
    if not running:
        begin(1)
    while running:
        reap(*os.waitpid(-1, 0))
    return account(folder, questions) | {
        "kills": killed,
        "machines": started,
        "survivor_seconds": round(time.time() - last, 2),
        "codes": dict(codes),
    }


def account(folder: Path, questions: int) -> dict[str, object]:
    """Count the rows: of each question, in the repository; and the answers that engines made."""
    repository = LocalRepository(folder / "answers")
    head = repository.head()
    stored = find_set(repository, plan_of(questions).specification, head)
    assert stored is not None
    assert head is not None
    rows = Counter(
        row["sample_id"] for batch in stored.batches(["sample_id"]) for row in batch.to_pylist()
    )
    return {
        "rows": rows.total(),
        "lost": questions - len(rows),
        "doubled": rows.total() - len(rows),
        "state": stored.manifest.state,
        "counted": sum(session.rows for session in stored.manifest.sessions),
        "problems": len(verify(repository, head).problems),
        "asked": sum(len(path.read_text().split()) for path in folder.glob("asked-*.txt")),
        "ended": [json.loads(path.read_text()) for path in sorted(folder.glob("done-*.json"))],
    }


def grant_every_lock() -> None:
    """Give this process and those that it starts every lock, and a disk that takes its time, so that commits overlap."""
    flush = os.fsync

    def slow_flush(file: int) -> None:
        time.sleep(0.015)
        flush(file)

    fcntl.flock = lambda *_: None
    os.fsync = slow_flush  # type: ignore[assignment]


def main() -> None:
    generating.ProgressArtifact = NoArtifact  # type: ignore[assignment, misc]
    arguments = sys.argv[1:]
    if arguments[0] == "--own-locks":
        grant_every_lock()
        del arguments[0]
    for number, text in enumerate(arguments[1:]):
        folder = Path(arguments[0]) / str(number)
        folder.mkdir()
        os.environ["REGRADE_SPOOL"] = str(folder / "spool")
        seed, machines, kills, questions = map(int, text.split(","))
        print(json.dumps(chain(folder, seed, machines, kills, questions)), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
