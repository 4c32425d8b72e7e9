"""What the engine in its own process costs over bare `LLM.generate` on the same prompts.

    python -m perf.engine_overhead [--model infra/demo/model] [--repeats 5] [--json FILE] [--extra load_format=dummy]

Both engines are loaded with the same arguments and then do each workload in turns, so that other work on the machine
slows both. The ratio is that of the fastest times, since other work only ever adds; the last column shows the ratios of
all pairs of neighbours. The CPU seconds (of all but vLLM's engine core, which
does the same for both) depend less on what else runs. The bare one gets lists and gives lists, as in the
simplest script; ours takes requests lazily and hands out completions as they finish.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from perf.workloads import MAX_MODEL_LEN, WARM_UP, WORKLOADS, Workload
from regrade.engines.base import Engine, PromptRendering
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process.engine import VllmProcess
from regrade.records import Request
from regrade.settings import SamplingParams

Measure = Callable[[Workload], tuple[float, float]]
"""Does a workload and returns the seconds and CPU seconds that it took beside vLLM's engine core."""


@contextmanager
def bare(arguments: argparse.Namespace, log: Path) -> Iterator[Measure]:
    """Run `LLM.generate` in a process of its own."""
    reading, writing = os.pipe()
    order = {name: getattr(arguments, name) for name in ("model", "cpu", "extra", "enforce_eager")}
    command = [sys.executable, "-m", "perf.bare_generate", json.dumps(order), str(writing)]
    with log.open("wb") as output, os.fdopen(reading) as answers:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            text=True,
            pass_fds=[writing],
        )
        os.close(writing)

        def measure(workload: Workload) -> tuple[float, float]:
            print(workload.name, file=process.stdin, flush=True)
            seconds, processor = json.loads(answers.readline())
            return seconds, processor

        with process:  # closes stdin and waits
            yield measure


@contextmanager
def ours(arguments: argparse.Namespace, log: Path) -> Iterator[Measure]:
    """Run the engine of regrade."""
    extra = (*arguments.extra, *(["kv_cache_memory_bytes=1073741824"] if arguments.cpu else []))
    settings = VllmEngine(
        max_model_len=MAX_MODEL_LEN, enforce_eager=arguments.enforce_eager, extra=extra
    )
    model = settings.resolve(arguments.model)
    with settings.open(model, longest=(), rendering=PromptRendering(), log=log) as engine:
        yield lambda workload: _times(engine, workload)


def _times(engine: Engine, workload: Workload) -> tuple[float, float]:
    sampling = SamplingParams(max_tokens=workload.max_tokens)
    prompts = workload.prompts()
    started, processor = time.perf_counter(), _processor_seconds(engine)
    requests = (Request(k, prompt, sampling) for k, prompt in enumerate(prompts))
    completions = [c for batch in engine.generate(requests) for c in batch]
    seconds = time.perf_counter() - started
    if len(completions) != workload.requests or any(c.error for c in completions):
        raise SystemExit(
            f"{len(completions)} of {workload.requests} came back, or some with errors"
        )
    return seconds, _processor_seconds(engine) - processor


def _processor_seconds(engine: Engine) -> float:
    """Return the CPU seconds of this process and of the worker, so far."""
    if not isinstance(engine, VllmProcess) or engine.pid is None:
        raise SystemExit("not an engine with a process of its own")
    workers = psutil.Process(engine.pid).children()
    return time.process_time() + sum(sum(worker.cpu_times()[:2]) for worker in workers)


def compare(one: Measure, other: Measure, workload: Workload, repeats: int) -> dict[str, Any]:
    """Return the row of one workload."""
    pairs = [(one(workload), other(workload)) for _ in range(repeats)]
    ratios = [ours / bare for (bare, _), (ours, _) in pairs]
    return {
        "workload": workload.name,
        "bare": min(seconds for (seconds, _), _ in pairs),
        "ours": min(seconds for _, (seconds, _) in pairs),
        "bare_cpu": statistics.median(processor for (_, processor), _ in pairs),
        "ours_cpu": statistics.median(processor for _, (_, processor) in pairs),
        "ratio": min(seconds for _, (seconds, _) in pairs) / min(s for (s, _), _ in pairs),
        "ratios": ratios,
        "goal": workload.goal,
    }


def main() -> None:
    """Print the table, and write JSON where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--model", default="infra/demo/model")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--extra", action="append", default=[], help="engine argument, `name=value`"
    )
    parser.add_argument("--gpu", dest="cpu", action="store_false")
    parser.add_argument("--compile", dest="enforce_eager", action="store_false")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder)
        with bare(arguments, logs / "bare.log") as one, ours(arguments, logs / "ours.log") as other:
            for measure in (one, other):
                measure(WARM_UP)
            rows = [compare(one, other, w, arguments.repeats) for w in WORKLOADS]
    print(f"{'workload':<20}  bare s  ours s  bare CPU  ours CPU  ratio   goal  ratios")
    for row in rows:
        print(
            f"{row['workload']:<20} {row['bare']:>7.2f} {row['ours']:>7.2f} {row['bare_cpu']:>9.2f} "
            f"{row['ours_cpu']:>9.2f} {row['ratio']:>6.3f} {row['goal']:>6.2f}  "
            + " ".join(f"{ratio:.2f}" for ratio in sorted(row["ratios"]))
        )
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
