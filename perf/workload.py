"""The prompts of `perf/workloads.py` as a file that `regrade evaluate` reads as a benchmark."""

import json
from pathlib import Path

from perf.workloads import MAX_MODEL_LEN, Workload

CACHE_BYTES = 1 << 30
ENGINE_OPTIONS = (
    *("--engine.max-model-len", str(MAX_MODEL_LEN)),
    *("--engine.extra", f"kv_cache_memory_bytes={CACHE_BYTES}"),
)


def prompts(n: int) -> list[str]:
    """Return prompts of different lengths, each with a beginning of its own."""
    return Workload("", n, 1, 0).prompts()


def write_questions(path: Path, n: int) -> Path:
    """Write prompts as a dataset with a target that the scorer `number` takes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        for prompt in prompts(n):
            file.write(json.dumps({"question": prompt, "prompt": prompt, "answer": "1"}) + "\n")
    return path


def evaluate_options(path: Path, max_tokens: int) -> list[str]:
    """Return the options of `regrade evaluate` for a file of `write_questions`, on the CPU."""
    return [
        *("--dataset.name", "workload", "--dataset.path", str(path)),
        *("--dataset.format", "completion", "--dataset.scorer", "number"),
        *("--max-tokens", str(max_tokens)),
    ]
