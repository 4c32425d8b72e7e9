"""Run `regrade evaluate` with real vLLM on all GSM8K and MMLU questions: rows, seconds per stage, peak memory.

python perf/full_run.py --model infra/demo/regrade-demo --data ../shared/data --answers /tmp/full/answers
"""

import argparse
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil


def memory_by_part(process: psutil.Process) -> dict[str, int]:
    """Proportional memory (PSS) in bytes of a process (`flow`) and its descendants (`engine`, `prefect server`)."""
    parts: dict[str, int] = {}
    for member in [process, *process.children(recursive=True)]:
        try:
            command = " ".join(member.cmdline())
            size = member.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
        other = "prefect server" if "prefect" in command else "engine"
        part = "flow" if member == process else other
        parts[part] = parts.get(part, 0) + size
    return parts


def watch(process: psutil.Process, peak: dict[str, int], stop: threading.Event) -> None:
    """Record the peak memory of each part until `stop` is set or the process ends."""
    while not stop.wait(0.5):
        try:
            for part, size in memory_by_part(process).items():
                peak[part] = max(peak.get(part, 0), size)
        except psutil.NoSuchProcess:
            return


def main() -> None:
    """Run the command and print the measurements as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", type=Path, required=True, help="folder with gsm8k/ and mmlu/")
    parser.add_argument("--answers", required=True)
    parser.add_argument("--benchmark", action="append", default=[])
    parser.add_argument("more", nargs="*", help="further options of `regrade evaluate`, after --")
    options = parser.parse_args()
    benchmarks = options.benchmark or ["gsm8k", "mmlu"]
    command = [
        sys.executable,
        "-m",
        "regrade.cli.main",
        "evaluate",
        "--json",
        "--model",
        options.model,
    ]
    for benchmark in benchmarks:
        source = options.data / benchmark.partition("_")[0]
        command += ["--benchmark", benchmark, "--source", f"{benchmark}={source}"]
    command += ["--answers", options.answers, *options.more]

    started = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        peak: dict[str, int] = {}
        stop = threading.Event()
        watcher = threading.Thread(target=watch, args=(psutil.Process(run.pid), peak, stop))
        watcher.start()
        output, _ = run.communicate()
        stop.set()
        watcher.join()
    if run.returncode:
        sys.exit(run.returncode)
    document = json.loads(output)
    measured = {
        "seconds": round(time.monotonic() - started, 1),
        "peak_memory_mib": {part: round(size / 2**20) for part, size in peak.items()},
        "answer_sets": [
            {
                "benchmark": answers["benchmark"],
                "rows": answers["rows"],
                "seconds": {stage: round(value, 2) for stage, value in answers["seconds"].items()},
                "tokens_per_second": round(answers["tokens_per_second"] or 0),
                "accuracy": [score["metrics"]["accuracy"] for score in answers["scores"]],
                "failed": [score["metrics"]["failed"] for score in answers["scores"]],
            }
            for answers in document["answer_sets"]
        ],
    }
    print(json.dumps(measured, indent=2))


if __name__ == "__main__":
    main()
