"""Measure and plot the growth of time and peak memory: generating 10^3 to 10^5 answers, scoring 10^4 to 10^6, 10^2 to 10^4 commits.

    python -m perf.growth                          # perf/results/growth.json and growth.png
    python -m perf.growth --only score --score 10000 100000
    python -m perf.growth --only commits

Generating: one-token answers of the demo model through the real engine into the spool and a local repository. Memory is
the peak resident memory of the process itself (`peak MiB`) and of its vLLM worker (`worker MiB`). Scoring: see
perf/scoring.py. `slope` is the exponent of a power law between two sizes; 1 is linear.

Commits: each adds a shard of 20 rows and the manifest to a folder, without waiting for the disk. `seconds` is the CPU time of all, `ms`
that of one of the last hundred, `KiB` what one adds to `.regrade`; then the CPU time of commands in new processes: of the folder, of
its copy without `.regrade` (`bare`), and of a bare folder with as many answer sets (`sets`, up to 1,000).
"""

# ruff: noqa: PLC0415 - each side imports only packages of its environment, and import time is not measured

import argparse
import hashlib
import json
import math
import os
import resource
import shutil
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from perf.measuring import RESULTS, arguments_of, python, report
from perf.workloads import ENGINE_OPTIONS, write_questions
from regrade.stats.drawing import COLOURS, SMALL, style

KINDS = ("generate", "score", "commits")
SHARD_ROWS = 20
LAST = 100


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


def commit(n: int, folder: Path) -> None:
    """Make `n` commits to a folder in this process, and print the measurements as JSON."""
    from perf.synthetic import description, table
    from regrade.answers.documents import json_bytes
    from regrade.answers.local import LocalRepository
    from regrade.answers.manifest import Shard
    from regrade.answers.parquet import parquet_bytes

    os.fsync = lambda _: None
    repository = LocalRepository(folder / "answers")
    described = description(n * SHARD_ROWS + 1, 0)  # not complete: shards are not joined
    own = f"answers/{described.specification.folder}"
    empty = json_bytes(described.manifest((), (), datetime.now(UTC))).decode()
    rows = table(n * SHARD_ROWS, 0)
    listed: list[str] = []
    seconds: list[float] = []
    size, window = 0, min(LAST, n)
    for number in range(n):
        content = parquet_bytes(rows.slice(number * SHARD_ROWS, SHARD_ROWS))
        sha256 = hashlib.sha256(content).hexdigest()
        name = f"part-{number:05d}-{sha256[:8]}.parquet"
        shard = Shard(name=name, rows=SHARD_ROWS, bytes=len(content), sha256=sha256)
        listed.append(shard.model_dump_json(indent=2))
        manifest = empty.replace('"shards": []', f'"shards": [{", ".join(listed)}]')
        manifest = manifest.replace('"rows": 0', f'"rows": {len(listed) * SHARD_ROWS}', 1)
        if number == n - window:
            size = _history_bytes(repository.folder)
        started = time.process_time()
        repository.commit(
            {f"{own}/{name}": content, f"{own}/manifest.json": manifest.encode()},
            "answers",
            parent=repository.head(),
        )
        seconds.append(time.process_time() - started)
    each = (_history_bytes(repository.folder) - size) / window / 1024
    ms = 1000 * sum(seconds[-window:]) / window
    print(json.dumps({"seconds": sum(seconds), "ms": ms, "KiB": each}))


def _history_bytes(folder: Path) -> int:
    """Return the size of commits and former contents; of checkpoints, only the newest two are kept."""
    files = (folder / ".regrade").rglob("*")
    return sum(f.stat().st_size for f in files if f.is_file() and f.parent.name != "checkpoints")


def read(n: int, folder: Path) -> dict[str, float]:
    """Return the CPU seconds of commands that read what `commit` made, and copies without history."""
    from perf.synthetic import description, table
    from regrade.answers.documents import json_bytes
    from regrade.answers.manifest import Shard
    from regrade.answers.parquet import parquet_bytes

    def seconds(command: str, *arguments: str) -> float:
        ran = python("-m", "regrade.cli.main", command, *arguments, "--quiet")
        return round(ran.cpu_seconds, 2)

    answers = folder / "answers"
    (answer_set,) = (path.parent.name for path in answers.glob("answers/*/*/*/manifest.json"))
    found = {
        "list": seconds("list", "--answers", str(answers)),
        "show": seconds("show", answer_set, "--answers", str(answers)),
        "verify": seconds("verify", "--answers", str(answers)),
    }
    shutil.rmtree(answers / ".regrade")
    found["list bare"] = seconds("list", "--answers", str(answers))
    content = parquet_bytes(table(1, 0))
    sha256 = hashlib.sha256(content).hexdigest()
    shard = Shard(
        name=f"part-00000-{sha256[:8]}.parquet", rows=1, bytes=len(content), sha256=sha256
    )
    for seed in range(min(n, 1000)):
        described = description(1, seed)
        own = folder / "sets" / "answers" / described.specification.folder
        own.mkdir(parents=True)
        (own / shard.name).write_bytes(content)
        (own / "manifest.json").write_bytes(
            json_bytes(described.manifest((shard,), (), datetime.now(UTC)))
        )
    found["list sets"] = seconds("list", "--answers", str(folder / "sets"))
    return found


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
    more: dict[str, float] = {}
    if kind == "generate":
        ran = python("-m", "perf.growth", "--model", model, "--generate-one", str(n), str(scratch))
    elif kind == "commits":
        ran = python("-m", "perf.growth", "--commit-one", str(n), str(scratch))
        more = {name: round(ran.document[name], 2) for name in ("ms", "KiB")} | read(n, scratch)
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
    return row | more


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Plot time (both axes logarithmic) and memory (linear) over the number of answers."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    time_axes, memory_axes = figure.subplots(1, 2)
    for kind, colour in zip(KINDS, COLOURS, strict=False):
        points = [row for row in rows if row["kind"] == kind]
        n = [row["n"] for row in points]
        time_axes.plot(n, [row["seconds"] for row in points], "o-", color=colour, label=kind)
        memory_axes.plot(n, [row["peak MiB"] for row in points], "o-", color=colour, label=kind)
        workers = [row["worker MiB"] for row in points if "worker MiB" in row]
        if workers:
            memory_axes.plot(n, workers, "s--", color=colour, label="generate, vLLM's worker")
    time_axes.set(xscale="log", yscale="log", xlabel="answers or commits", ylabel="seconds")
    memory_axes.set(xscale="log", xlabel="answers or commits", ylabel="peak memory in MiB")
    memory_axes.set_ylim(bottom=0)
    for axes in (time_axes, memory_axes):
        style(axes, grid="both")
        axes.legend(fontsize=SMALL)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Measure, report and plot."""
    parser = arguments_of(__doc__)
    parser.add_argument("--model", default="infra/demo/regrade-demo")
    parser.add_argument("--generate", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--score", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--commits", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--commit-one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--generate-one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.commit_one:
        n, folder = options.commit_one
        commit(int(n), Path(folder))
        return
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
