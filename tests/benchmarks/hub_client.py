"""Opens benchmarks in a subprocess with its own `HF_ENDPOINT`, and prints the results as JSON.

Requests are the argument, or lines of stdin, each with a line of results.
"""

import json
import sys
from typing import Any

from regrade.benchmarks import open_benchmark, open_dataset
from regrade.benchmarks.questions import hub_source
from regrade.hub.retries import RetryPolicy
from regrade.settings import DatasetBenchmark, PromptSettings
from regrade.settings.errors import RegradeError


def answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        if "task" in request:
            _use_a_part_of_the_index()
            benchmark = open_benchmark(
                f"lm_eval:{request['task']}", prompt=PromptSettings(n_shots=1)
            )
        elif "n_shots" in request:
            benchmark = open_benchmark("gsm8k", prompt=PromptSettings(**request))
        else:
            benchmark = open_dataset(DatasetBenchmark(**request))
        samples = benchmark.samples()
    except RegradeError as error:
        retryable = getattr(error, "retryable", None)
        return {"error": type(error).__name__, "message": str(error), "retryable": retryable}
    return {
        "identity": benchmark.identity.model_dump(),
        "targets": [sample.target for sample in samples],
        "prompt": benchmark.prompt(samples[0]),
    }


def _use_a_part_of_the_index() -> None:
    """Index the folder of one task: that of all tasks takes seconds."""
    from regrade.lm_eval import index
    from regrade.lm_eval.package import tasks_folder

    entries = index.entries_of(tasks_folder() / "gsm8k")
    index._installed = lambda: {entry.name: entry for entry in entries}  # type: ignore[assignment]


if __name__ == "__main__":
    hub_source.RETRIES = RetryPolicy(attempts=3, first_wait=0.05)
    for line in sys.argv[1:] or sys.stdin:
        sys.stdout.write(json.dumps([answer(request) for request in json.loads(line)]) + "\n")
        sys.stdout.flush()
