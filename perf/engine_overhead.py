"""Compare regrade's engine, which runs in a separate process, with bare `LLM.generate` on the same prompts.

    python -m perf.engine_overhead [--model infra/demo/regrade-demo] [--repeats 5] [--extra load_format=dummy]

Both sides are loaded with the same arguments and take turns, so that other work on the machine slows both. `ratio`
compares the fastest times, because other work only adds time; `ratios` are those of all pairs. CPU seconds exclude
vLLM's engine core, which does the same on both sides; they depend less on other work. Bare `LLM.generate` takes and
returns lists, as in the simplest script; regrade's engine reads requests lazily and yields completions as they finish.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psutil

from perf.measuring import arguments_of, ratio, report, spread
from perf.workloads import CACHE, CACHE_BYTES, MAX_MODEL_LEN, WARM_UP, WORKLOADS, Workload, prompts
from regrade.engines.base import Engine, PromptRendering
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process.engine import VllmProcess
from regrade.engines.vllm_process.extra import parse_extra
from regrade.records import Request
from regrade.settings import SamplingParams

Measure = Callable[[Workload], tuple[float, float]]
"""Runs a workload and returns wall-clock and CPU seconds, the latter without vLLM's engine core."""


_loaded: list[Any] = []
"""The `LLM` of the process of `bare`."""


def load(log: str, settings: dict[str, Any]) -> None:
    """Load bare vLLM in this process, whose output goes to the log from now on."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(output, stream)
    from vllm import LLM  # noqa: PLC0415 - not in the process of regrade's side

    _loaded.append(LLM(max_model_len=MAX_MODEL_LEN, **settings))


def generate(workload: Workload) -> tuple[float, float]:
    """Run a workload on what `load` has loaded."""
    from vllm import SamplingParams  # noqa: PLC0415 - as above

    params = SamplingParams(temperature=0, max_tokens=workload.max_tokens)
    texts = prompts(workload.requests)
    started, processor = time.perf_counter(), time.process_time()
    outputs = _loaded[0].generate(texts, params, use_tqdm=False)
    times = time.perf_counter() - started, time.process_time() - processor
    if len(outputs) != workload.requests:
        raise RuntimeError(f"{len(outputs)} of {workload.requests} requests were answered")
    return times


def unload() -> None:
    """End what `load` has loaded."""
    _loaded.clear()


@contextmanager
def bare(arguments: argparse.Namespace, log: Path) -> Iterator[Measure]:
    """Run `LLM.generate` in a separate process."""
    settings = {"model": arguments.model, "enforce_eager": arguments.enforce_eager}
    if arguments.cpu:
        settings |= {"dtype": "float32", "kv_cache_memory_bytes": CACHE_BYTES}
    else:
        settings |= {"gpu_memory_utilization": arguments.gpu_memory_utilization}
    settings |= parse_extra(arguments.extra)
    given = (str(log), settings)
    with ProcessPoolExecutor(1, get_context("spawn"), initializer=load, initargs=given) as pool:
        try:
            yield lambda workload: pool.submit(generate, workload).result()
        finally:
            pool.submit(unload).result()  # its process would wait for that of vLLM at its exit


@contextmanager
def ours(arguments: argparse.Namespace, log: Path) -> Iterator[Measure]:
    """Run regrade's engine."""
    extra = (*arguments.extra, *([CACHE] if arguments.cpu else []))
    settings = VllmEngine(
        max_model_len=MAX_MODEL_LEN,
        enforce_eager=arguments.enforce_eager,
        gpu_memory_utilization=arguments.gpu_memory_utilization,
        extra=extra,
    )
    model = settings.resolve(arguments.model)
    with settings.open(model, requests=(), rendering=PromptRendering(), log=log) as engine:
        yield lambda workload: _times(engine, workload)


def _times(engine: Engine, workload: Workload) -> tuple[float, float]:
    sampling = SamplingParams(max_tokens=workload.max_tokens)
    texts = prompts(workload.requests)
    started, processor = time.perf_counter(), _processor_seconds(engine)
    requests = (Request(k, prompt, sampling) for k, prompt in enumerate(texts))
    completions = [c for batch in engine.generate(requests) for c in batch]
    seconds = time.perf_counter() - started
    if len(completions) != workload.requests or any(c.error for c in completions):
        raise SystemExit(
            f"{len(completions)} of {workload.requests} requests were answered, or some failed"
        )
    return seconds, _processor_seconds(engine) - processor


def _processor_seconds(engine: Engine) -> float:
    """CPU seconds of this process and of the engine's worker so far."""
    if not isinstance(engine, VllmProcess) or engine.pid is None:
        raise SystemExit("the engine does not run in a separate process")
    workers = psutil.Process(engine.pid).children()
    return time.process_time() + sum(sum(worker.cpu_times()[:2]) for worker in workers)


def compare(
    run_bare: Measure, run_ours: Measure, workload: Workload, repeats: int
) -> dict[str, Any]:
    """Row of a workload."""
    pairs = [(*run_bare(workload), *run_ours(workload)) for _ in range(repeats)]
    bare, bare_cpu, ours, ours_cpu = zip(*pairs, strict=True)
    return {
        "workload": workload.name,
        "bare": round(min(bare), 3),
        "ours": round(min(ours), 3),
        "bare CPU": spread(bare_cpu),
        "ours CPU": spread(ours_cpu),
        "ratio": round(min(ours) / min(bare), 3),
        "ratios": ratio(ours, bare, 3),
        "goal": workload.goal,
    }


def main() -> None:
    """Measure and report."""
    parser = arguments_of(__doc__, "--model", "--gpu", "--extra")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--compile", dest="enforce_eager", action="store_false")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the requests")
    arguments = parser.parse_args()
    # Both engines are on one GPU at the same time.
    arguments.gpu_memory_utilization = None if arguments.cpu else 0.4
    workloads = [
        replace(w, requests=max(1, round(w.requests * arguments.scale))) for w in WORKLOADS
    ]
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder)
        with bare(arguments, logs / "bare.log") as run_bare:
            run_bare(WARM_UP)  # before the other engine measures the free memory
            with ours(arguments, logs / "ours.log") as run_ours:
                run_ours(WARM_UP)
                rows = [compare(run_bare, run_ours, w, arguments.repeats) for w in workloads]
    report("engine_overhead", rows)


if __name__ == "__main__":
    main()
