"""Measure the time until vLLM begins to load the model and until it is ready, with many questions.

    python -m perf.planning                        # 300,000 questions of 600 characters
    python -m perf.planning --questions 10000

`plan` is `make_plan`; the others are times from opening the engine: until vLLM is imported, until it begins to load the
model, and until it is ready and all prompts are tokenised. Without `max_model_len`, all prompts are tokenised before the
model is loaded, since they decide the context; with it, or with 20,000 questions and more, meanwhile. Memory is the peak of this process and of the worker.
"""

# ruff: noqa: PLC0415 - import time of the library is part of no measurement

import json
import resource
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from perf.measuring import RESULTS, arguments_of, call, log_file, report
from perf.workloads import WORDS

CHARACTERS = 600
CONTEXT = 1024
"""`max_model_len` of the second measurement, in tokens; prompts have 188."""


def measure(
    model: str, questions: str, extra: Sequence[str], max_model_len: int | None
) -> dict[str, Any]:
    """Plan in this process, start the engine, and return the measurements."""
    from regrade.benchmarks import open_dataset
    from regrade.engines.base import PromptRendering
    from regrade.engines.vllm import VllmEngine
    from regrade.jobs.plan import make_plan
    from regrade.settings import DatasetBenchmark, PromptSettings, SamplingParams

    dataset = DatasetBenchmark(
        name="workload",
        path=questions,
        format="chat",
        scorer="number",
        sampling=SamplingParams(max_tokens=64),
    )
    settings, prompt = VllmEngine(max_model_len=max_model_len, extra=tuple(extra)), PromptSettings()
    resolved = settings.resolve(model)
    started = time.monotonic()
    plan = make_plan(
        open_dataset(dataset), resolved, settings, sampling=None, prompt=prompt, repeats=1
    )
    requests = plan.requests(plan.missing(set()))
    planned = time.monotonic()
    stages: dict[str, float] = {}
    worker_mib = 0.0

    def on_progress(stage: str) -> None:
        nonlocal worker_mib
        stages.setdefault(stage, time.monotonic() - planned)
        children = psutil.Process().children(recursive=True)
        worker_mib = max(worker_mib, *map(_rss, children), 0.0)

    engine = settings.open(
        resolved,
        requests=[requests],
        rendering=PromptRendering(),
        log=log_file("planning"),
        on_progress=on_progress,
    )
    with engine:
        ready = time.monotonic() - planned
    own_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "max_model_len": max_model_len or "from the prompts",
        "plan, s": round(planned - started, 1),
        "imported, s": round(stages["tokenising the prompts"], 1),
        "loads, s": round(stages["loading the model"], 1),
        "ready, s": round(ready, 1),
        "regrade, MiB": round(own_mib),
        "worker, MiB": round(worker_mib),
    }


def _rss(process: psutil.Process) -> float:
    with suppress(psutil.NoSuchProcess):
        return float(process.memory_info().rss) / 2**20
    return 0.0


def write_questions(path: Path, n: int) -> None:
    """Write questions of `CHARACTERS` characters."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        for number in range(n):
            words = (WORDS[(7 * k + number) % len(WORDS)] for k in range(CHARACTERS // 4))
            text = f"{number}: {' '.join(words)}"[:CHARACTERS]
            file.write(json.dumps({"question": text, "answer": "1"}) + "\n")


def main() -> None:
    """Measure and report."""
    parser = arguments_of(__doc__, "--model", "--extra")
    parser.add_argument("--questions", type=int, default=300_000)
    parser.add_argument("--repetitions", type=int, default=1)
    options = parser.parse_args()
    scratch = RESULTS / "planning"
    questions = scratch / "questions.jsonl"
    write_questions(questions, options.questions)
    fixed = ("perf.planning:measure", options.model, questions, options.extra)
    rows = [
        {"questions": options.questions, **call(*fixed, max_model_len).document}
        for _ in range(options.repetitions)
        for max_model_len in (None, CONTEXT)
    ]
    shutil.rmtree(scratch)
    report("planning", rows)


if __name__ == "__main__":
    main()
