"""Commands that tests kill, and an account of every row that they wrote."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow.parquet as pq
import yaml

from regrade.answers.base import Repository
from regrade.answers.sets import AnswerSet, list_sets
from regrade.answers.verify import verify
from regrade.scoring.score import score_answers
from tests.command_line import ROOT, Ran, demo_parameters

MARK = "REGRADE_TEST_MARK"
ENGINE: dict[str, Any] = {
    "kind": "vllm",
    "dtype": "float32",
    "enforce_eager": True,
    "max_model_len": 512,
    "max_num_seqs": 4,
    # vLLM takes 4 GiB otherwise, and two engines do not know of each other.
    "extra": ["kv_cache_memory_bytes=268435456"],
}
ENDING_SECONDS = 15.0
"""Longest time for supervisors, an engine and a server to end after their owner was killed."""
Key = tuple[str, int]
Row = tuple[str | None, float | None]
"""Text and latency; the latency shows whether an answer was generated again."""


@dataclass
class Command:
    """A `regrade` command with a separate spool; it can be started several times."""

    home: Path
    arguments: list[str]
    environment: dict[str, str]
    mark: str = field(default_factory=lambda: uuid4().hex)

    @property
    def spool(self) -> Path:
        return self.home / "spool"

    @contextmanager
    def started(self, *more: str) -> Iterator["Started"]:
        """Start the command; kill it at the end of the block if it still runs."""
        self.home.mkdir(parents=True, exist_ok=True)
        environment = os.environ | {
            "REGRADE_SPOOL": str(self.spool),
            "REGRADE_LOGS": str(self.home / "logs"),
            **self.environment,
            MARK: self.mark,
        }
        out, err = self.home / "out.txt", self.home / "err.txt"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "regrade.cli.main", *self.arguments, *more],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                preexec_fn=restore_sigint,  # noqa: PLW1509 - async-signal-safe
            )
            try:
                yield Started(process, out, err)
            finally:
                if process.poll() is None:
                    process.kill()
                process.wait()

    def finish(self, *more: str, timeout: float = 240) -> Ran:
        """Run the command to its end."""
        with self.started(*more) as run:
            return run.wait(timeout)

    def kill_after(self, seconds: float) -> None:
        """Start the command, and kill it some seconds after its engine is ready; nothing of it may be left."""
        with self.started() as run:
            run.until("is ready")
            time.sleep(seconds)
            run.kill()
        self.assert_nothing_left()

    def with_arguments(self, *arguments: str) -> "Command":
        return Command(self.home, list(arguments), self.environment, self.mark)

    def processes(self, word: str = "") -> list[int]:
        """Ids of processes started by this command, with `word` in their command line."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                marked = f"{MARK}={self.mark}".encode() in (folder / "environ").read_bytes()
                if marked and word.encode() in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
        return found

    @contextmanager
    def frozen(self, word: str) -> Iterator[None]:
        """Stop the processes with `word` in their command line (SIGSTOP) until the end of the block."""
        stopped = self.processes(word)
        assert stopped, f"no process of {word}"
        try:
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in stopped:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def assert_nothing_left(self) -> None:
        wait_until(lambda: not self.processes(), ENDING_SECONDS, "processes are left behind")


def generating(config: Path, answers: Path, home: Path, server: str, **more: str) -> Command:
    """A command that generates what a configuration says, with a Prefect server and further variables."""
    arguments = ["generate", "--config", str(config), "--answers", str(answers)]
    return Command(home, arguments, {"PREFECT_API_URL": server, **more})


@dataclass(frozen=True)
class Started:
    process: "subprocess.Popen[bytes]"
    out: Path
    err: Path

    def wait(self, timeout: float = 240) -> Ran:
        self.process.wait(timeout)
        return Ran(self.process.returncode, self.out.read_text(), self.err.read_text())

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def until(self, text: str, timeout: float = 120) -> None:
        """Wait until stderr contains `text`, or the process has ended."""
        deadline = time.monotonic() + timeout
        while text not in self.err.read_text():
            if self.process.poll() is not None:
                return
            assert time.monotonic() < deadline, f"no '{text}' in: {self.err.read_text()}"
            time.sleep(0.02)


def restore_sigint() -> None:
    """Undo the ignored SIGINT that processes inherit from a test suite in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def wait_until(met: Callable[[], bool], seconds: float, problem: str) -> None:
    deadline = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < deadline, problem
        time.sleep(0.02)


def tell(value: object) -> None:
    """Print a value that helps to repeat a failed test."""
    sys.stdout.write(f"{value}\n")


def demo_datasets() -> list[dict[str, Any]]:
    """The datasets of the demo, arithmetic and choices, with paths that hold in every folder."""
    return [
        dataset | {"path": str(ROOT / dataset["path"])} for dataset in demo_parameters()["datasets"]
    ]


def config(
    folder: Path, engine: dict[str, Any], *, questions: Path | None = None, **changes: object
) -> Path:
    """Write a configuration file for an engine and the arithmetic questions of the demo, or those in a file."""
    arithmetic = demo_datasets()[0]
    if questions is not None:
        arithmetic["path"] = str(questions)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({"datasets": [arithmetic], "engine": engine, **changes}))
    return path


def many_questions(folder: Path, n: int) -> Path:
    """Write a file with `n` questions of the demo's kind, all different."""
    path = folder / "questions.jsonl"
    lines = [
        {
            "question": f"One of the bricks costs {number % 97} dollars. How many dollars does Lena pay for {number} bricks?",
            "answer": f"#### {number % 97 * number}",
        }
        for number in range(n)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def spooled(root: Path) -> dict[Key, Row]:
    """All complete rows in the spools below a folder; no process may hold them."""
    found: dict[Key, Row] = {}
    for journal in root.glob("*/*/journal-*.jsonl"):
        for line in journal.read_bytes().split(b"\n")[:-1]:
            row = json.loads(line)
            found[row["sample_id"], row["repeat"]] = (row["text"], row["latency"])
    for sealed in root.glob("*/*/sealed-*.parquet"):
        found.update(_rows(pq.read_table(sealed).to_pylist()))
    return found


def stored(repository: Repository) -> list[tuple[Key, Row]]:
    """All rows of the only answer set of a repository, including duplicates; none before it is published."""
    found = answer_sets(repository)
    assert len(found) <= 1
    return [
        pair
        for answers in found
        for batch in answers.batches(["sample_id", "repeat", "text", "latency"])
        for pair in _rows(batch.to_pylist())
    ]


def whole_rows(repository: Repository, count: int) -> dict[Key, Row]:
    """Return the rows of the only answer set; it is complete, has each row once, and no damage."""
    answers, rows = answer_set(repository), stored(repository)
    assert answers.manifest.state == "complete"
    assert len(rows) == len(dict(rows)) == count
    assert not verify(repository, answers.revision).problems
    return dict(rows)


def answer_sets(repository: Repository) -> list[AnswerSet]:
    head = repository.head()
    return list_sets(repository, head) if head else []


def answer_set(repository: Repository) -> AnswerSet:
    """The only answer set of a repository."""
    (found,) = answer_sets(repository)
    return found


def accuracy(repository: Repository) -> float | None:
    return score_answers(answer_set(repository), "number").file.summary.overall.accuracy


def _rows(rows: list[dict]) -> list[tuple[Key, Row]]:
    return [((row["sample_id"], row["repeat"]), (row["text"], row["latency"])) for row in rows]


@dataclass
class Account:
    """All rows that were ever on disk, and those lost, generated again or duplicated."""

    kills: int = 0
    known: dict[Key, Row] = field(default_factory=dict)
    lost: set[Key] = field(default_factory=set)
    again: set[Key] = field(default_factory=set)
    doubled: set[Key] = field(default_factory=set)

    def take(self, repository: Repository, spool: Path, kills: int = 0) -> None:
        """Compare the current rows, after these kills, with all earlier rows."""
        self.kills += kills
        published = stored(repository)
        self.doubled |= {
            key for key, times in Counter(k for k, _ in published).items() if times > 1
        }
        now = spooled(spool) | dict(published)
        self.lost |= self.known.keys() - now.keys()
        self.again |= {key for key, row in self.known.items() if now.get(key, row) != row}
        self.known |= now

    def assert_nothing_lost_or_made_twice(self) -> None:
        assert (self.lost, self.again, self.doubled) == (set(), set(), set())

    @property
    def counts(self) -> dict[str, int]:
        rows = {"rows": self.known, "lost": self.lost, "generated again": self.again}
        rows["doubled"] = self.doubled
        return {"kill points": self.kills} | {what: len(keys) for what, keys in rows.items()}

    def __str__(self) -> str:
        return told(self.counts)


def told(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in counts.items())
