"""Compare benchmarks in one stream of requests with the same benchmarks one after the other: steps of the engine, and time.

    python -m perf.pooling [--model infra/demo/regrade-demo] [--repeats 3] [--extra NAME=VALUE]

Ten benchmarks of 40 to 200 questions of the demo model, generated and ranked by turns, in one loaded vLLM. Both sides answer
the same questions, from requests to rows fsynced in the spools, and take turns, each with an empty prefix cache. `steps` is the
number of steps of vLLM's scheduler, `running` the mean number of requests in one. The goals are at most 0.7 of the steps, and
not more time.

    python -m perf.pooling --gpu --drawn short chat --model FOLDER --extra load_format=dummy

measures, with any model, benchmarks of these sizes whose answers have drawn numbers of tokens, as below.

    python -m perf.pooling --simulated

computes instead how long both would decode on one H100 with a model of 8B parameters in bfloat16: each step reads all weights, and the
KV cache of each running request (3.35 TB/s; 128 KiB a token). Prompts and the processor's work are left out: it is good for
ratios only.
"""

import argparse
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perf.measuring import ROOT, arguments_of, log_file, report, spread, vllm_options
from perf.workloads import prompts
from regrade.answers.spool import Spool
from regrade.cli.job_options import parameters_in_file
from regrade.engines.base import PromptRendering
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process.engine import VllmProcess
from regrade.jobs.generate import Filling, fill
from regrade.jobs.job import GenerationJob, make_job
from regrade.jobs.plan import Plan, PlannedRequests, PooledRequests
from regrade.jobs.plans_of_job import plans_of_all
from regrade.records import Request
from regrade.settings import SamplingParams
from regrade.stats.speed import Speed

SIZES = (200, 120, 40, 160, 80, 60, 180, 100, 140, 50)
"""Questions of each benchmark."""
SHARE_OF_STEPS = 0.7
"""Most steps of the pooled benchmarks, relative to those of one after the other."""


def main() -> None:
    """Print the table; end with 1 if a goal is missed."""
    parser = arguments_of(__doc__, "--model", "--gpu", "--extra", "--repeats")
    parser.add_argument("--simulated", action="store_true")
    parser.add_argument("--drawn", choices=["short", "chat"], nargs="+", help="kinds of answers")
    options = parser.parse_args()
    if options.simulated:
        simulated()
        return
    if options.drawn:
        measure_drawn(options)
        return
    rows = measure(options)
    report("pooling", rows)
    pooled, alone = rows
    missed = pooled["steps"] > SHARE_OF_STEPS * alone["steps"]
    missed |= pooled["seconds"]["median"] > alone["seconds"]["median"]
    print(f"steps {pooled['steps'] / alone['steps']:.2f} of one after the other")
    sys.exit(int(missed))


BANDWIDTH = 3.35e12
"""Bytes that an H100 reads a second."""
WEIGHTS, KV_TOKEN = 16e9, 128 * 1024
"""Bytes of the weights, and of a token in the KV cache: 32 layers, 8 heads of 128, keys and values in bfloat16."""
SLOTS, PROMPT = 256, 600
"""Most requests in a step, and tokens of a prompt."""


def simulated() -> None:
    """Print the seconds of decoding of pooled benchmarks and of one after the other, by the kind of answers."""
    for kind, sets in drawn():
        pooled = decoding(np.concatenate(sets))
        _print(kind, pooled, sum(map(decoding, sets)))


def drawn() -> Iterator[tuple[str, list[NDArray[np.int_]]]]:
    """Yield kinds of answers, and the tokens of each answer of each benchmark."""
    rng = np.random.default_rng(0)
    for kind, median, sigma, most in (("short", 60, 0.8, 512), ("chat", 300, 0.8, 2_048)):
        sets = [
            np.minimum(np.ceil(rng.lognormal(np.log(median), sigma, n)), most).astype(int)
            for n in SIZES
        ]
        yield kind, sets


def _print(kind: str, pooled: float, alone: float) -> None:
    print(
        f"{kind} answers: {pooled:.1f} s pooled, {alone:.1f} s one after the other, {pooled / alone:.2f}",
        flush=True,
    )


def measure_drawn(options: argparse.Namespace) -> None:
    """Print the seconds of answers with drawn numbers of tokens, pooled and one after the other."""
    settings = VllmEngine(max_model_len=4_096, **vllm_options(options.cpu, options.extra))
    log = log_file("pooling")
    model = settings.resolve(options.model)
    with settings.open(model, requests=(), rendering=PromptRendering(), log=log) as engine:
        assert isinstance(engine, VllmProcess)  # noqa: S101 - the engine of these settings
        for kind, sets in drawn():
            if kind not in options.drawn:
                continue
            texts = iter(prompts(sum(SIZES)))
            asked = [
                [
                    Request(
                        1_000 * number + key,
                        next(texts) * (PROMPT // 60),
                        SamplingParams(max_tokens=int(n)),
                    )
                    for key, n in enumerate(tokens)
                ]
                for number, tokens in enumerate(sets)
            ]
            best = {"pooled": float("inf"), "alone": float("inf")}
            for _ in range(options.repeats):
                for side, rounds in {"pooled": [[*chain(*asked)]], "alone": asked}.items():
                    engine.limit(None)  # empties the prefix cache
                    started = time.monotonic()
                    for requests in rounds:
                        found = [c for batch in engine.generate(requests) for c in batch]
                        if len(found) != len(requests) or any(c.error for c in found):
                            sys.exit("a request failed")
                    best[side] = min(best[side], time.monotonic() - started)
            _print(kind, best["pooled"], best["alone"])


def decoding(lengths: NDArray[np.int_]) -> float:
    """Return the seconds of decoding answers of these lengths, in tokens; the next request begins where one ends."""
    waiting = deque(lengths.tolist())
    running: list[tuple[int, int]] = []  # tokens so far, and in all
    seconds = 0.0
    while waiting or running:
        while waiting and len(running) < SLOTS:
            running.append((0, waiting.popleft()))
        read = WEIGHTS + KV_TOKEN * sum(PROMPT + so_far for so_far, _ in running)
        seconds += read / BANDWIDTH
        running = [(so_far + 1, length) for so_far, length in running if so_far + 1 < length]
    return seconds


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Let both sides take turns, and return a row for each; the figures of the engine are those of the last repetition."""
    settings = VllmEngine(**vllm_options(options.cpu, options.extra))
    given = parameters_in_file(GenerationJob, ROOT / "infra/demo/demo.yaml")
    given |= {"model": options.model, "engine": settings}
    plans = plans_of_all(make_job(GenerationJob, given))
    asked = list(benchmarks(plans))
    log = log_file("pooling")
    sides = {"pooled": [asked], "one after the other": [[requests] for requests in asked]}
    streams = [PooledRequests(tuple(t)) for rounds in sides.values() for t in rounds]
    engine = VllmProcess(
        settings, plans[0].model, requests=streams, rendering=PromptRendering(), log=log
    )
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    speeds: dict[str, list[Speed]] = {}
    with engine:
        for _ in range(options.repeats):
            for side, rounds in sides.items():
                engine.limit(None)  # empties the prefix cache
                started = time.monotonic()
                speeds[side] = [answer(together, engine) for together in rounds]
                seconds[side].append(time.monotonic() - started)
    return [row(side, seconds[side], speeds[side]) for side in sides]


def benchmarks(plans: Sequence[Plan]) -> Iterator[PlannedRequests]:
    """Yield the requests of each benchmark, by turns of each plan."""
    for number, size in enumerate(SIZES):
        plan = plans[number % len(plans)]
        questions = plan.missing(set())
        first = 37 * number
        yield plan.requests([questions[(first + n) % len(questions)] for n in range(size)])


def answer(together: Sequence[PlannedRequests], engine: VllmProcess) -> Speed:
    """Answer benchmarks in one stream, and return the engine's measurements."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        spools = [Spool(Path(folder) / str(number)) for number in range(len(together))]
        fillings = [
            Filling(requests, stack.enter_context(spool), lambda _: None)
            for requests, spool in zip(together, spools, strict=True)
        ]
        fill(fillings, engine)
        speed = engine.measure()
    if speed is None or any(filling.progress.failed for filling in fillings):
        sys.exit("a request failed")
    return speed


def row(side: str, seconds: Sequence[float], speeds: Sequence[Speed]) -> dict[str, Any]:
    """Return the figures of a side."""
    steps = sum(speed.steps for speed in speeds)
    running = sum(speed.steps * (speed.running_mean or 0.0) for speed in speeds)
    return {
        "side": side,
        "steps": steps,
        "running": round(running / steps, 1),
        "seconds": spread(seconds),
    }


if __name__ == "__main__":
    main()
