"""Measure the fixed cost of commands: seconds of whole processes, with warm disk caches.

    python -m perf.startup                       # all measurements
    python -m perf.startup --only help list --repetitions 9
    python -m perf.startup --importtime help     # the 40 slowest imports, the slowest last

`fixed cost of evaluate` is the time of the process minus loading and generating, as recorded in the manifest.
`score, server` runs with a Prefect server that this script starts on 127.0.0.1.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perf.measuring import RESULTS, python, report, spread
from perf.serving import free_port, is_up
from perf.synthetic import write_answers
from perf.workloads import ENGINE_OPTIONS, evaluate_options, write_questions

REGRADE = ("-m", "regrade.cli.main")
GOALS = {
    "help": 0.5,
    "benchmarks": 0.5,
    "list": 1.0,
    "refused score": 1.5,
    "refused evaluate": 1.5,
    "score": 4.0,
    "score, server": 4.0,
    "fixed cost of evaluate": 8.0,
}
"""Highest accepted median, in seconds."""


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
def prefect_server(environment: dict[str, str]) -> Iterator[str]:
    """Run a Prefect server on a free port of 127.0.0.1, and yield the URL of its API."""
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
            deadline = time.monotonic() + 180
            while not is_up(f"{address}/health"):
                if time.monotonic() > deadline or server.poll() is not None:
                    sys.exit("the Prefect server did not start within 180 s")
                time.sleep(0.3)
            yield address
        finally:
            server.terminate()


def fixed_cost(options: argparse.Namespace, scratch: Path, environment: dict[str, str]) -> float:
    """Seconds of `regrade evaluate` on 50 questions, without loading and generating."""
    answers = scratch / "evaluated"
    shutil.rmtree(answers, ignore_errors=True)
    questions = write_questions(scratch / "questions.jsonl", 50)
    command = [*REGRADE, "evaluate", "--json", "--model", options.model, "--answers", str(answers)]
    command += [*evaluate_options(questions, 8), *ENGINE_OPTIONS, "--engine.enforce-eager"]
    ran = python(*command, environment=environment)
    (manifest,) = answers.glob("answers/*/*/*/manifest.json")
    (session,) = json.loads(manifest.read_text())["sessions"]
    return float(ran.seconds - session["load_seconds"] - session["generate_seconds"])


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="infra/demo/regrade-demo")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--only", nargs="+", choices=[*GOALS], default=[*GOALS])
    parser.add_argument("--importtime", choices=["help", "benchmarks", "list"])
    options = parser.parse_args()
    scratch = RESULTS / "startup"
    shutil.rmtree(scratch, ignore_errors=True)
    environment = isolated(scratch)
    answers = scratch / "answers"
    write_answers(answers, 1_000)
    commands = {
        "help": ["--help"],
        "benchmarks": ["benchmarks"],
        "list": ["list", "--answers", str(answers)],
        "refused score": ["score", "--model", "nobody", "--answers", str(answers)],
        "refused evaluate": [
            "evaluate",
            "--model",
            options.model,
            "--benchmark",
            "gsm8k",
            "--repeats",
            "3",
        ],
        "score": ["score", "--force", "--json", "--answers", str(answers)],
    }
    if options.importtime:
        import_times([*REGRADE, *commands[options.importtime]], environment)
        return

    cpu: dict[str, list[float]] = {}

    def timed(name: str, shown_as: str = "", **more: str) -> float:
        ran = python(*REGRADE, *commands[name], environment=environment | more)
        cpu.setdefault(shown_as or name, []).append(ran.cpu_seconds)
        return ran.seconds

    measured: dict[str, list[float]] = {}
    for name in options.only:
        if name in commands:
            timed(name)  # warms disk caches; migrates the databases of Prefect and MLflow
            measured[name] = [timed(name) for _ in range(options.repetitions)]
        elif name == "score, server":
            with prefect_server(environment) as address:
                timed("score", name, PREFECT_API_URL=address)
                repetitions = range(options.repetitions)
                measured[name] = [
                    timed("score", name, PREFECT_API_URL=address) for _ in repetitions
                ]
        else:
            repetitions = range(min(options.repetitions, 3))
            fixed_cost(options, scratch, environment)
            measured[name] = [fixed_cost(options, scratch, environment) for _ in repetitions]
    rows = [
        {
            "what": name,
            "seconds": spread(values),
            "CPU, s": spread(cpu[name][1:]) if name in cpu else "",
            "goal": GOALS[name],
            "reached": "yes" if statistics.median(values) <= GOALS[name] else "no",
        }
        for name, values in measured.items()
    ]
    shutil.rmtree(scratch)
    report("startup", rows)


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
    main()
