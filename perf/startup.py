"""Measure the fixed cost of commands: seconds of whole processes, with warm disk caches.

    python -m perf.startup                       # all measurements
    python -m perf.startup --only help list --repetitions 9
    python -m perf.startup --importtime help     # the 40 slowest imports, the slowest last

`fixed cost of evaluate` is the time of the process minus loading and generating, as recorded in the manifest. Loading begins with the engine's
process, while the run is still prepared.
`evaluate again` finds all its answers and scores. `score, server` runs with a Prefect server that this script starts on 127.0.0.1. `score, first` finds no MLflow database and makes it.

The exit code is 1 if a goal is missed. Repetitions beside other work do not decide that, unless all were so; then a goal is
reached or open.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from perf.measuring import RESULTS, Ran, arguments_of, python, report, spread
from perf.serving import wait_until_up
from perf.synthetic import write_answers
from perf.workloads import ENGINE_OPTIONS, evaluate_options, write_questions
from regrade.processes.supervised import free_port

REGRADE = ("-m", "regrade.cli.main")
GOALS = {
    "help": 0.5,
    "benchmarks": 0.5,
    "list": 1.0,
    "refused model": 1.5,
    "refused repeats": 1.5,
    "refused benchmark": 1.5,
    "refused folder": 1.5,
    "score": 4.0,
    "score, first": 6.0,
    "score, server": 4.0,
    "fixed cost of evaluate": 3.0,
    "evaluate again": 4.0,
}
"""Highest accepted median, in seconds."""
REFUSED = "refused "
"""Begin of the names of commands that end with exit code 2."""
CALM = 0.15
"""Most cores that other processes may keep busy beside a repetition that decides."""


@dataclass(frozen=True, slots=True)
class Repetition:
    """One run of a command."""

    seconds: float
    cpu_seconds: float
    others: float
    """Cores that other processes kept busy."""

    @classmethod
    def of(cls, ran: Ran, *, beside: float = 0.0, without: float = 0.0) -> "Repetition":
        """Return the repetition of a process.

        Args:
            ran: The process.
            beside: CPU seconds of a server that worked for it.
            without: Seconds that are not counted.
        """
        others = max(0.0, ran.others - beside / ran.seconds)
        return cls(ran.seconds - without, ran.cpu_seconds, others)


def verdict(repetitions: Sequence[Repetition], goal: float) -> str:
    """Return `yes`, `no`, or `open` if every repetition had other work beside it."""
    calm = [repetition for repetition in repetitions if repetition.others <= CALM]
    if statistics.median(repetition.seconds for repetition in calm or repetitions) <= goal:
        return "yes"
    return "no" if calm else "open"


def isolated(scratch: Path) -> dict[str, str]:
    """Environment variables that keep all files in our folders; Prefect's database is kept between runs."""
    return {
        "PREFECT_HOME": str(RESULTS / "prefect"),
        "REGRADE_SPOOL": str(scratch / "spool"),
        "REGRADE_LOGS": str(scratch / "logs"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PYTHONDONTWRITEBYTECODE": "",  # bytecode is cached, as after `make install`
    }


@contextmanager
def prefect_server(environment: dict[str, str]) -> Iterator[tuple[str, psutil.Process]]:
    """Run a Prefect server on a free port of 127.0.0.1, and yield the URL of its API and its process."""
    port = str(free_port())
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1"]
    with subprocess.Popen(
        [*command, "--port", port, "--no-ui"],
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        address = f"http://127.0.0.1:{port}/api"
        try:
            wait_until_up(f"{address}/health", lambda: server.poll() is not None, "Prefect")
            yield address, psutil.Process(server.pid)
        finally:
            server.terminate()


def cpu_of(process: psutil.Process) -> float:
    """Return the CPU seconds of a process and its children."""
    tree = [process, *process.children(recursive=True)]
    return float(sum(sum(running.cpu_times()[:2]) for running in tree))


def fixed_cost(
    options: argparse.Namespace, scratch: Path, environment: dict[str, str]
) -> Repetition:
    """Run `regrade evaluate` on 50 questions; loading and generating are not counted."""
    answers = scratch / "evaluated"
    shutil.rmtree(answers, ignore_errors=True)
    ran = python(*REGRADE, *evaluation(options.model, scratch), environment=environment)
    (manifest,) = answers.glob("answers/*/*/*/manifest.json")
    (session,) = json.loads(manifest.read_text())["sessions"]
    return Repetition.of(ran, without=session["load_seconds"] + session["generate_seconds"])


def evaluation(model: str, scratch: Path) -> list[str]:
    """Return the arguments of the evaluation whose fixed cost is measured, and write its questions."""
    questions = write_questions(scratch / "questions.jsonl", 50)
    arguments = ["evaluate", "--json", "--model", model, "--answers", str(scratch / "evaluated")]
    return [*arguments, *evaluate_options(questions, 8), *ENGINE_OPTIONS, "--engine.enforce-eager"]


def commands_on(answers: Path, model: str) -> dict[str, list[str]]:
    """Return the arguments of each command that is measured as it is."""
    evaluate = ["evaluate", "--model", model, "--answers", str(answers)]
    score = ["score", "--force", "--json", "--answers", str(answers)]
    return {
        "help": ["--help"],
        "benchmarks": ["benchmarks"],
        "list": ["list", "--answers", str(answers)],
        "refused model": ["score", "--model", "nobody", "--answers", str(answers)],
        "refused repeats": [*evaluate, "--benchmark", "gsm8k", "--repeats", "3"],
        "refused benchmark": [*evaluate, "--benchmark", "gsm9k"],
        "refused folder": ["score", "--answers", str(answers / "nothing")],
        "score": score,
        "score, first": score,
    }


class Measuring:
    """Runs the measurements; repetitions of one follow each other, after one that warms caches and databases."""

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        self._options, self._scratch = options, scratch
        self._environment = isolated(scratch)
        self._commands = commands_on(scratch / "answers", options.model)

    def measured(self, name: str) -> list[Repetition]:
        """Return the repetitions of a measurement."""
        if name == "score, server":
            return self._with_server()
        if name in self._commands:
            self._once(name)
            return [self._once(name) for _ in range(self._options.repetitions)]
        fixed_cost(self._options, self._scratch, self._environment)
        if name == "evaluate again":
            self._commands[name] = evaluation(self._options.model, self._scratch)
            return [self._once(name) for _ in range(self._options.repetitions)]
        repetitions = range(min(self._options.repetitions, 3))
        return [fixed_cost(self._options, self._scratch, self._environment) for _ in repetitions]

    def _once(self, name: str, **more: str) -> Repetition:
        if name == "score, first":
            more["MLFLOW_TRACKING_URI"] = f"sqlite:///{self._scratch / 'first.db'}"
            (self._scratch / "first.db").unlink(missing_ok=True)
        return Repetition.of(self._ran(name, **more))

    def _ran(self, name: str, **more: str) -> Ran:
        code = 2 if name.startswith(REFUSED) else 0
        arguments = self._commands[name]
        return python(*REGRADE, *arguments, environment=self._environment | more, code=code)

    def _with_server(self) -> list[Repetition]:
        measured = []
        with prefect_server(self._environment) as (address, server):
            for _ in range(1 + self._options.repetitions):
                before = cpu_of(server)
                ran = self._ran("score", PREFECT_API_URL=address)
                measured.append(Repetition.of(ran, beside=cpu_of(server) - before))
        return measured[1:]


def main() -> int:
    """Measure and report; return 1 if a goal is missed."""
    parser = arguments_of(__doc__, "--model")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--only", nargs="+", choices=[*GOALS], default=[*GOALS])
    parser.add_argument("--importtime", choices=["help", "benchmarks", "list", "score"])
    options = parser.parse_args()
    scratch = RESULTS / "startup"
    shutil.rmtree(scratch, ignore_errors=True)
    write_answers(scratch / "answers", 1_000)
    if options.importtime:
        arguments = commands_on(scratch / "answers", options.model)[options.importtime]
        import_times([*REGRADE, *arguments], isolated(scratch))
        return 0
    measuring = Measuring(options, scratch)
    measured = {name: measuring.measured(name) for name in options.only}
    shutil.rmtree(scratch)
    rows = [
        {
            "what": name,
            "seconds": spread([repetition.seconds for repetition in repetitions]),
            "CPU, s": spread([repetition.cpu_seconds for repetition in repetitions]),
            "other work, cores": spread([repetition.others for repetition in repetitions]),
            "goal": GOALS[name],
            "reached": verdict(repetitions, GOALS[name]),
        }
        for name, repetitions in measured.items()
    ]
    report("startup", rows)
    return int(any(row["reached"] == "no" for row in rows))


def import_times(command: list[str], environment: dict[str, str]) -> None:
    """Print the 40 slowest imports of a command, each with the time of its nested imports."""
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", *command],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line for line in ran.stderr.splitlines() if line.startswith("import time:")]
    lines = [line for line in lines if line.split("|")[1].strip().isdigit()]
    print("\n".join(sorted(lines, key=lambda line: int(line.split("|")[1]))[-40:]))


if __name__ == "__main__":
    sys.exit(main())
