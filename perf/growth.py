"""Measure and plot the growth of time and peak memory: generating 10^3 to 10^5 answers, scoring 10^4 to 10^6.

    python -m perf.growth                          # perf/results/growth.json and growth.png
    python -m perf.growth --only score --score 10000 100000

Generating: one-token answers of the demo model through the real engine into the spool and a local repository. Memory is
the peak resident memory of the process itself (`peak MiB`) and of its vLLM worker (`worker MiB`). Scoring: see
perf/scoring.py. `slope` is the exponent of a power law between two sizes; 1 is linear.
"""

# ruff: noqa: PLC0415 - each side imports only packages of its environment, and import time is not measured

import argparse
import json
import math
import resource
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import psutil

from perf.measuring import RESULTS, python, report
from perf.workloads import ENGINE_OPTIONS, write_questions

KINDS = ("generate", "score")


def generate(model: str, n: int, folder: Path) -> None:
    """Generate and publish `n` answers in this process, and print the measurements as JSON."""
    from regrade.answers.local import LocalRepository
    from regrade.answers.publishing import publish_answers
    from regrade.answers.spool import Spool
    from regrade.benchmarks import open_dataset
    from regrade.engines.base import PromptRendering
    from regrade.engines.vllm import VllmEngine
    from regrade.jobs.generate import generate as generate_answers
    from regrade.jobs.plan import make_plan
    from regrade.settings import DatasetBenchmark, PromptSettings, SamplingParams

    questions = write_questions(folder / "questions.jsonl", n)
    dataset = DatasetBenchmark(
        name="workload",
        path=str(questions),
        format="completion",
        scorer="number",
        sampling=SamplingParams(max_tokens=1),
    )
    settings = VllmEngine(
        max_model_len=int(ENGINE_OPTIONS[1]), extra=(ENGINE_OPTIONS[3],), enforce_eager=True
    )
    resolved = settings.resolve(model)
    prompt = PromptSettings()
    plan = make_plan(
        open_dataset(dataset), resolved, settings, sampling=None, prompt=prompt, repeats=1
    )
    requests = plan.requests(plan.missing(set()))
    engine = settings.open(
        resolved,
        requests=[requests],
        rendering=PromptRendering(),
        log=RESULTS / "logs" / "growth.log",
    )
    process = psutil.Process()
    peak = {"worker": 0.0}
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.5):
            workers = [
                p for p in process.children(recursive=True) if "vllm_process.worker" in _command(p)
            ]
            sizes = [_resident(worker) for worker in workers]
            peak["worker"] = max(peak["worker"], *sizes, 0.0)

    with engine, Spool(folder / "spool") as spool:
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        started = time.monotonic()
        generate_answers(requests, engine, spool, lambda _: None)
        publish_answers(LocalRepository(folder / "answers"), spool, plan.description)
        seconds = time.monotonic() - started
        stop.set()
        watcher.join()
    own_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "own_mib": own_mib, "worker_mib": peak["worker"]}))


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _resident(process: psutil.Process) -> float:
    try:
        return float(process.memory_info().rss) / 2**20
    except psutil.Error:
        return 0.0


def measure(kind: str, n: int, model: str) -> dict[str, Any]:
    """Measure one size and return its row."""
    scratch = RESULTS / "growth"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    if kind == "generate":
        ran = python("-m", "perf.growth", "--model", model, "--generate-one", str(n), str(scratch))
    else:
        from perf.synthetic import write_answers

        write_answers(scratch / "answers", n)
        ran = python("-m", "perf.scoring", "--score", str(scratch / "answers"))
    shutil.rmtree(scratch)
    document = ran.document
    row = {
        "kind": kind,
        "n": n,
        "seconds": round(document["seconds"], 2),
        "peak MiB": round(document.get("own_mib", ran.peak_mib)),
    }
    if kind == "generate":
        row["worker MiB"] = round(document["worker_mib"])
    return row


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Plot time (both axes logarithmic) and memory (linear) over the number of answers."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    time_axes, memory_axes = figure.subplots(1, 2)
    for kind, colour in zip(KINDS, ("#4477aa", "#cc6677"), strict=True):
        points = [row for row in rows if row["kind"] == kind]
        n = [row["n"] for row in points]
        time_axes.plot(n, [row["seconds"] for row in points], "o-", color=colour, label=kind)
        memory_axes.plot(n, [row["peak MiB"] for row in points], "o-", color=colour, label=kind)
        workers = [row["worker MiB"] for row in points if "worker MiB" in row]
        if workers:
            memory_axes.plot(n, workers, "s--", color=colour, label="generate, vLLM's worker")
    time_axes.set(xscale="log", yscale="log", xlabel="answers", ylabel="seconds")
    memory_axes.set(xscale="log", xlabel="answers", ylabel="peak memory in MiB")
    memory_axes.set_ylim(bottom=0)
    for axes in (time_axes, memory_axes):
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Measure, report and plot."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="infra/demo/regrade-demo")
    parser.add_argument("--generate", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--score", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--generate-one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.generate_one:
        n, folder = options.generate_one
        generate(options.model, int(n), Path(folder))
        return
    rows: list[dict[str, Any]] = []
    for kind in KINDS:
        if options.only not in (None, kind):
            continue
        for n in getattr(options, kind):
            row = measure(kind, n, options.model)
            if rows and rows[-1]["kind"] == kind:
                last = rows[-1]
                row["slope"] = round(
                    math.log(row["seconds"] / last["seconds"]) / math.log(n / last["n"]), 2
                )
            rows.append(row)
    report("growth", rows)
    plot(rows, RESULTS / "growth.png")


if __name__ == "__main__":
    main()
