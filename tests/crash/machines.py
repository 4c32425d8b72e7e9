"""Machines that generate one answer set together, as processes with a test engine; some are killed.

    python -m tests.crash.machines [--own-locks|--no-locks|--hub] [--clock] [--slow] FOLDER SEED,MACHINES,KILLS,QUESTIONS ...

Half of the signals are SIGKILL, half SIGTERM. With `--own-locks`, each machine is granted every lock, as on a network file system whose locks
reach only one client; with `--no-locks` there are none. With `--hub`, the repository is on a test Hub that fails now and then. With `--clock`, the
clock of each process jumps by years. With `--slow`, all takes five times as long, so that most signals meet a process at work.
Plan, spool, merge and publishing are the real ones. Prints an account for each chain of kills as JSON. A process of its own, because the machines
are forked: a Prefect import for each of a hundred machines would take minutes.
"""

import errno
import fcntl
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

from huggingface_hub import constants

from regrade.answers import local, origin, publishing
from regrade.answers.base import Repository
from regrade.answers.hub import HubRepository
from regrade.answers.local import LocalRepository
from regrade.answers.sets import find_set
from regrade.answers.spool import Spool, spool_folder
from regrade.answers.verify import verify
from regrade.engines.base import EngineInfo
from regrade.jobs import generate
from regrade.jobs.generate import Progress
from regrade.jobs.shares import Share
from regrade.processes import lasting
from regrade.processes.shutdown import end_on_signals, exit_code, interruptible, signal_received
from regrade.records import Completion, Request
from regrade.settings import Reuse
from tasks import generate as generating
from tasks.generate import generate_missing
from tasks.plan import find_missing
from tasks.publish import publish_answers
from tasks.work import Work
from tests.answers.page_reader import check
from tests.hub_server.faults import Answer, Drop, Stall
from tests.hub_server.server import HubServer
from tests.sums import SERVER, plan_of

BATCH = 4


class Working:
    """A test engine: some milliseconds for each batch, and a text that names the process."""

    info = EngineInfo("vllm", "0", "cpu", "float32", 64, None, 0.0)

    def __init__(self, name: str, seconds: float, log: Path) -> None:
        self.name, self.seconds, self.log = name, seconds, log

    def generate(self, requests: Iterable[Request]) -> Iterator[list[Completion]]:
        batch: list[Completion] = []
        prompts: dict[int, str] = {}
        stored = self.log.with_name(self.log.name.replace("asked", "stored"))
        with self.log.open("a", buffering=1) as log, stored.open("a", buffering=1) as on_disk:
            for request in requests:
                prompts[request.key] = json.dumps(str(request.prompt))
                log.write(f"{prompts[request.key]}\n")
                batch.append(Completion(request.key, "sent", text=self.name, latency=0.1))
                if len(batch) == BATCH:
                    time.sleep(self.seconds)
                    yield batch
                    # The next ones are asked for: these are on disk.
                    on_disk.writelines(f"{prompts[c.key]}\n" for c in batch)
                    batch = []
            yield batch
            on_disk.writelines(f"{prompts[c.key]}\n" for c in batch)


class NoArtifact:
    """Progress without a Prefect server."""

    def __init__(self, work: Work) -> None:
        pass

    def update(self, progress: Progress, **_: object) -> None:
        pass


def repository_of(folder: Path) -> Repository:
    """Return the repository of a chain: on the Hub that its file names, else in its folder."""
    hub = folder / "hub.json"
    if not hub.exists():
        return LocalRepository(folder / "answers")
    cache = folder / f"cache-{os.getpid()}"
    return HubRepository(cache=cache, **json.loads(hub.read_text()))


def failing_hub(folder: Path, seed: int) -> int:
    """Start a Hub in a process, in which a request fails every moment; return the id of the process."""
    constants.HF_HUB_DISABLE_XET = True  # the test Hub has none
    if pid := os.fork():
        while not (folder / "hub.json").exists():
            time.sleep(0.01)
        return pid
    server, rng = HubServer(), random.Random(seed)
    user = server.store.add_user("lab")
    server.start()
    hub = {"repo_id": "lab/answers", "endpoint": server.endpoint, "token": user.write_token}
    (folder / "hub.new").write_text(json.dumps(hub))
    (folder / "hub.new").rename(folder / "hub.json")
    paths = ["/commit/main", "/commit/main", "/preupload/main", "/lfs/", "objects/batch"]
    paths += ["/api/", "/resolve/"]
    while True:
        path = rng.choice(paths)
        method = {"/lfs/": "PUT", "/api/": "GET", "/resolve/": "GET"}.get(path, "POST")
        late = rng.random() < 0.5
        action = rng.choice(
            [Answer(503, afterwards=late), Answer(500), Drop(afterwards=late), Stall(0.3, late)]
        )
        before = server.requests(method, path)
        server.fail(method, path, action)
        while server.requests(method, path) == before:
            time.sleep(0.05)
        with (folder / "faults.txt").open("a") as log:
            log.write(f"{method} {path} {action}\n")
        time.sleep(rng.uniform(0, 1))


def let_the_clock_jump(name: str) -> None:
    """Let the clock of this process jump by years, back and forth, several times a second."""
    right = time.time

    def jump() -> float:
        return random.Random(f"{name} {time.monotonic() // 0.3}").uniform(-1e8, 1e8)

    class Jumping(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + timedelta(seconds=jump())  # type: ignore[arg-type]

    for module in (publishing, origin, local, generate):
        module.datetime = Jumping  # type: ignore[attr-defined]
    time.time = lambda: right() + jump()


def machine(folder: Path, share: Share, questions: int, name: str, seconds: float) -> None:
    """Do what a flow run does for one answer set."""
    repository = repository_of(folder)
    plan = plan_of(questions)
    spool = Spool(
        spool_folder(repository.uri, plan.specification.answer_set_id, share.folder_suffix)
    )
    work = Work(plan, repository, spool, Reuse(), share)
    with spool:
        find_missing(work)
        if work.requests.rows:
            engine = Working(name, seconds, folder / f"asked-{name}.txt")
            generate_missing.fn([work], engine, SERVER)  # type: ignore[arg-type]
        publish_answers.fn(work)
    assert work.published is not None
    done = {"state": work.published.manifest.state, "ends_here": work.ends_here, "at": time.time()}
    (folder / f"done-{name}.json").write_text(json.dumps(done))


def start(folder: Path, share: Share, questions: int, name: str, seconds: float) -> int:
    """Return the id of a machine's process."""
    if pid := os.fork():
        return pid
    code = 1
    lasting._process.cache_clear()
    try:
        if CLOCK:
            let_the_clock_jump(name)
        end_on_signals()
        with interruptible():
            machine(folder, share, questions, name, seconds)
        code = 0
    except KeyboardInterrupt as error:
        code = exit_code(error)
    except Exception:  # noqa: BLE001 - as `regrade.cli.main`: a library may make an error of its own of the interruption
        code = 128 + number if (number := signal_received()) else 1
    finally:
        if code == 1:
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
        seconds = rng.choice([0.01, 0.02, 0.05]) * SLOWER
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
        time.sleep(rng.uniform(0.0, 0.15) * SLOWER)
        reap_ended()
        free = [n for n in range(1, machines + 1) if n not in [v[0] for v in running.values()]]
        if free and (not running or rng.random() < 0.6):
            begin(rng.choice(free))
        elif running:
            pid = rng.choice(list(running))
            os.kill(pid, rng.choice([signal.SIGKILL, signal.SIGTERM]))
            _, status = os.waitpid(pid, 0)
            reap(pid, status)
            killed += os.waitstatus_to_exitcode(status) in (
                -9,
                -15,  # before Python had its handler
                143,
            )  # else it had ended just before
    last = time.monotonic()
    if not running:
        begin(1)
    while running:
        reap(*os.waitpid(-1, 0))
    return account(folder, questions) | {
        "kills": killed,
        "machines": started,
        "survivor_seconds": round(time.monotonic() - last, 2),
        "codes": dict(codes),
    }


def account(folder: Path, questions: int) -> dict[str, object]:
    """Count the rows: of each question, in the repository; and the answers that engines made."""
    repository = repository_of(folder)
    head = repository.head()
    stored = find_set(repository, plan_of(questions).specification, head)
    assert stored is not None
    assert head is not None
    rows = Counter(
        row["sample_id"] for batch in stored.batches(["sample_id"]) for row in batch.to_pylist()
    )
    problems = [str(problem) for problem in verify(repository, head).problems]
    for manifest in folder.glob("answers/answers/*/*/*/manifest.json"):
        problems += check(manifest)  # without regrade
    faults = folder / "faults.txt"
    return {
        "rows": rows.total(),
        "lost": questions - len(rows),
        "doubled": rows.total() - len(rows),
        "state": stored.manifest.state,
        "counted": sum(session.rows for session in stored.manifest.sessions),
        "problems": problems,
        "faults": len(faults.read_text().splitlines()) if faults.exists() else 0,
        "ended": [json.loads(path.read_text()) for path in sorted(folder.glob("done-*.json"))],
        **asked_again(folder),
    }


def asked_again(folder: Path) -> dict[str, int]:
    """Tell apart why questions were asked more than once.

    `in_flight`: asked by a process that ended before the answer was on disk. `overlap`: answered by machines with other shares, before either
    could know. `beyond`: asked by a machine although an earlier process of its share had the answer on disk.
    """
    asked = {
        path.stem[6:]: path.read_text().split("\n")[:-1] for path in folder.glob("asked-*.txt")
    }
    found: dict[str, list[str]] = {name: [] for name in asked}
    for path in folder.glob("stored-*.txt"):
        found[path.stem[7:]] = path.read_text().split("\n")[:-1]
    known: dict[str, set[str]] = {}
    beyond = 0
    for name in sorted(asked, key=lambda name: int(name.partition("-")[0])):
        share = known.setdefault(name.partition("-")[2], set())
        beyond += len(share & set(asked[name]))
        share |= set(found[name])
    everywhere = Counter(key for keys in found.values() for key in set(keys))
    return {
        "asked": sum(map(len, asked.values())),
        "in_flight": sum(len(asked[name]) - len(found[name]) for name in asked),
        "overlap": everywhere.total() - len(everywhere),
        "beyond": beyond,
    }


def grant_every_lock() -> None:
    """Give this process and those that it starts every lock, and a disk that takes its time, so that commits overlap."""
    flush = os.fsync

    def slow_flush(file: int) -> None:
        time.sleep(0.015)
        flush(file)

    fcntl.flock = lambda *_: None  # type: ignore[assignment]
    os.fsync = slow_flush  # type: ignore[assignment]


def refuse_every_lock() -> None:
    """Be a file system without locks."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    fcntl.flock = refuse


CLOCK = "--clock" in sys.argv
SLOWER = 5 if "--slow" in sys.argv else 1


def main() -> None:
    generating.ProgressArtifact = NoArtifact  # type: ignore[assignment, misc]
    options = {word for word in sys.argv[1:] if word.startswith("--")}
    base, *chains = [word for word in sys.argv[1:] if word not in options]
    if "--own-locks" in options:
        grant_every_lock()
    if "--no-locks" in options:
        refuse_every_lock()
    for number, text in enumerate(chains):
        folder = Path(base) / str(number)
        folder.mkdir()
        os.environ["REGRADE_SPOOL"] = str(folder / "spool")
        seed, machines, kills, questions = map(int, text.split(","))
        hub = failing_hub(folder, seed) if "--hub" in options else 0
        try:
            print(json.dumps(chain(folder, seed, machines, kills, questions)), flush=True)  # noqa: T201
        finally:
            if hub:
                os.kill(hub, signal.SIGKILL)
                os.waitpid(hub, 0)


if __name__ == "__main__":
    main()
