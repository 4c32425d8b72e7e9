"""Measure the time until vLLM begins to load the model: planning, rendering and tokenising of many questions.

    python -m perf.planning                        # 300,000 questions of 600 characters
    python -m perf.planning --questions 10000

The engine is ended as soon as it begins to load. `plan` is `make_plan`; `engine` is the time from opening the engine
until it loads, in which it imports vLLM and gets the requests. Memory is the peak of this process and of the worker.
"""

# ruff: noqa: PLC0415 - import time of the library is part of no measurement

import argparse
import json
import resource
import shutil
import time
from pathlib import Path

import psutil

from perf.measuring import RESULTS, python, report
from perf.workloads import WORDS

CHARACTERS = 600


class _LoadingError(Exception):
    """Raised when the engine begins to load the model."""


def measure(model: str, questions: Path) -> None:
    """Plan in this process, start the engine until it loads, and print the measurements as JSON."""
    from regrade.benchmarks import open_dataset
    from regrade.engines.base import PromptRendering
    from regrade.engines.vllm import VllmEngine
    from regrade.generation import make_plan
    from regrade.settings import DatasetBenchmark, PromptSettings, SamplingParams

    dataset = DatasetBenchmark(
        name="workload",
        path=str(questions),
        format="chat",
        scorer="number",
        sampling=SamplingParams(max_tokens=64),
    )
    settings, prompt = VllmEngine(), PromptSettings()
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
        stages[stage] = time.monotonic() - planned
        if stage == "loading the model":
            children = psutil.Process().children(recursive=True)
            worker_mib = max(child.memory_info().rss for child in children) / 2**20
            raise _LoadingError

    engine = settings.open(
        resolved,
        requests=[requests],
        rendering=PromptRendering(),
        log=RESULTS / "logs" / "planning.log",
        on_progress=on_progress,
    )
    try:
        with engine:
            raise SystemExit("the engine did not report that it loads")
    except _LoadingError:
        pass
    own_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        json.dumps(
            {
                "plan, s": round(planned - started, 1),
                "of which import, s": round(stages["tokenising the prompts"], 1),
                "engine, s": round(stages["loading the model"], 1),
                "regrade, MiB": round(own_mib),
                "worker, MiB": round(worker_mib),
            }
        )
    )


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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="infra/demo/model")
    parser.add_argument("--questions", type=int, default=300_000)
    parser.add_argument("--repetitions", type=int, default=2)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.model, options.measure)
        return
    scratch = RESULTS / "planning"
    write_questions(scratch / "questions.jsonl", options.questions)
    command = ["-m", "perf.planning", "--model", options.model]
    command += ["--measure", str(scratch / "questions.jsonl")]
    rows = [
        {"questions": options.questions, **python(*command).document}
        for _ in range(options.repetitions)
    ]
    shutil.rmtree(scratch)
    report("planning", rows)


if __name__ == "__main__":
    main()
