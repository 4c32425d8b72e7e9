"""Compare checkpoints of a training in one engine start with a start for each: time, and answer for answer.

    python -m perf.checkpoints [--model infra/demo/regrade-demo] [--checkpoints 20] [--questions 40] [--extra NAME=VALUE]

The checkpoints are the model with noise in its weights. Both sides answer the same generated and ranked questions of the demo,
from the start or the switch of the engine to rows fsynced in the spools, by turns, so that other work on the machine slows both.
If this machine has no proof yet that such a model's weights may be replaced, it is made first, and its seconds are a row of
their own. The goals are equal answers, and at most a fifth of the time.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from perf.measuring import ROOT, arguments_of, log_file, report, vllm_options
from perf.workloads import checkpoint
from regrade.answers.spool import Spool
from regrade.cli.job_options import parameters_in_file
from regrade.engines.base import PromptRendering
from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process.engine import VllmProcess
from regrade.jobs.generate import Filling, fill
from regrade.jobs.job import GenerationJob, make_job
from regrade.jobs.plan import Plan, PooledRequests
from regrade.jobs.plans_of_job import open_benchmarks, plans_of

SHARE_OF_TIME = 0.2
"""Most seconds of the one start, relative to those of a start for each checkpoint."""
NEAR = 1e-3
"""Largest difference of the log-probabilities of ranked labels in equal answers."""
Rows = Mapping[str, Mapping[str, Any]]


def main() -> None:
    """Print the table and the ratio; end with 1 if a goal is missed."""
    parser = arguments_of(__doc__, "--gpu", "--extra")
    parser.add_argument("--model", type=Path, default=ROOT / "infra/demo/regrade-demo")
    parser.add_argument("--checkpoints", type=int, default=20)
    parser.add_argument("--questions", type=int, default=40, help="of each benchmark of the demo")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="regrade-checkpoints-") as folder:
        made = [
            checkpoint(options.model, Path(folder) / f"checkpoint-{step}", step)
            for step in range(1, options.checkpoints + 1)
        ]
        rows, other = measure(made, options)
    ratio = rows[-2]["seconds"] / rows[-1]["seconds"]
    report("checkpoints", rows, ratio=round(ratio, 3), other_answers=other)
    print(f"{other} answers differ; {ratio:.2f} of the time of a start for each checkpoint")
    sys.exit(int(ratio > SHARE_OF_TIME or other > 0))


def measure(
    checkpoints: Sequence[Path], options: argparse.Namespace
) -> tuple[list[dict[str, Any]], int]:
    """Let both sides take turns; return a row for each, and the number of answers in which they differ."""
    settings = VllmEngine(**vllm_options(options.cpu, options.extra))
    given = parameters_in_file(GenerationJob, ROOT / "infra/demo/demo.yaml")
    given |= {"model": str(checkpoints[0]), "engine": settings, "limit": options.questions}
    job = make_job(GenerationJob, given)
    benchmarks = open_benchmarks(job)
    plans = [plans_of(job, settings.resolve(str(path)), benchmarks) for path in checkpoints]
    log = log_file("checkpoints")

    def opened(plan: Sequence[Plan]) -> VllmProcess:
        return VllmProcess(
            settings, plan[0].model, requests=[pool(plan)], rendering=PromptRendering(), log=log
        )

    rows = []
    shared, alone, starts, other = 0.0, 0.0, 1, 0
    with ExitStack() as stack:
        began = time.monotonic()
        engine = stack.enter_context(opened(plans[0]))
        shared += time.monotonic() - began
        began, first = time.monotonic(), engine.pid
        engine.switch(plans[1][0].model, [pool(plans[1])])
        if engine.pid != first:
            proof = time.monotonic() - began
            rows.append({"side": "proof", "starts": 1, "seconds": round(proof, 1)})
        engine.switch(plans[0][0].model, [pool(plans[0])])
        for number, plan in enumerate(plans):
            began, before = time.monotonic(), engine.pid
            if number:
                engine.switch(plan[0].model, [pool(plan)])
            starts += engine.pid != before
            found = answer(plan, engine)
            shared += time.monotonic() - began
            began = time.monotonic()
            with opened(plan) as fresh:
                expected = answer(plan, fresh)
            alone += time.monotonic() - began
            other += differences(found, expected)
            print(f"{number + 1}: {shared:.1f} s, {alone:.1f} s", file=sys.stderr, flush=True)
    n = len(checkpoints)
    rows += [
        {"side": "one engine", "starts": starts, "seconds": round(shared, 1)},
        {"side": "a start for each", "starts": n, "seconds": round(alone, 1)},
    ]
    return [row | {"checkpoints": n} for row in rows], other


def pool(plans: Sequence[Plan]) -> PooledRequests:
    """Return the requests of a checkpoint."""
    return PooledRequests(tuple(plan.requests(plan.missing(set())) for plan in plans))


def answer(plans: Sequence[Plan], engine: VllmProcess) -> Rows:
    """Answer the questions of a checkpoint, and return the rows by benchmark and question."""
    rows: dict[str, Mapping[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        spools = [stack.enter_context(Spool(Path(folder) / str(n))) for n in range(len(plans))]
        requests = pool(plans).parts
        fillings = [Filling(r, s, lambda _: None) for r, s in zip(requests, spools, strict=True)]
        fill(fillings, engine)
        if any(filling.progress.failed or filling.progress.refused for filling in fillings):
            sys.exit("a request failed")
        for number, spool in enumerate(spools):
            for file in spool.seal():
                table = pq.read_table(file.path, columns=["sample_id", "text", "label_logprobs"])
                rows |= {f"{number} {row['sample_id']}": row for row in table.to_pylist()}
    return rows


def differences(found: Rows, expected: Rows) -> int:
    """Return the number of answers in which two sides differ."""
    return sum(
        key not in found or not _equal(found[key], row) for key, row in expected.items()
    ) + len(found.keys() - expected.keys())


def _equal(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    logprobs = zip(one["label_logprobs"] or (), other["label_logprobs"] or (), strict=True)
    return one["text"] == other["text"] and all(abs(a - b) <= NEAR for a, b in logprobs)


if __name__ == "__main__":
    main()
