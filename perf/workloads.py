"""Prompts and options that the scripts measure engines with."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

MAX_MODEL_LEN = 512
CACHE_BYTES = 1 << 30
"""Size of vLLM's KV cache on the CPU."""
CACHE = f"kv_cache_memory_bytes={CACHE_BYTES}"
"""The same as an engine argument."""
PROMPT = '{{ question }}\nWork it out and end with a line "#### " and the answer.'
"""Template of a prompt for the arithmetic questions of the demo."""
ENGINE_OPTIONS = (*("--engine.max-model-len", str(MAX_MODEL_LEN)), *("--engine.extra", CACHE))
WORDS = [
    *("Anna", "buys", "apples", "at", "the", "market"),
    *("and", "gives", "some", "to", "her", "brother"),
]


@dataclass(frozen=True)
class Workload:
    """A number of requests with a limit on the length of their answers."""

    name: str
    requests: int
    max_tokens: int
    goal: float
    """Highest accepted ratio of regrade's time to that of bare `LLM.generate`."""


WARM_UP = Workload("warm-up", 64, 4, 0)
WORKLOADS = (
    Workload("2,000 x 64 tokens", 2000, 64, 1.05),
    Workload("10,000 x 1 token", 10_000, 1, 1.15),
)


def prompts(n: int) -> list[str]:
    """Make prompts of different lengths that share no prefix."""
    return [
        f"Question {number}: "
        + " ".join(WORDS[k % len(WORDS)] for k in range(20 + number % 30))
        + "\nAnswer:"
        for number in range(n)
    ]


def write_questions(path: Path, n: int) -> Path:
    """Write prompts as a dataset, with a target that the scorer `number` accepts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        for prompt in prompts(n):
            file.write(json.dumps({"question": prompt, "prompt": prompt, "answer": "1"}) + "\n")
    return path


def evaluate_options(path: Path, max_tokens: int) -> list[str]:
    """Options of `regrade evaluate` for a file of `write_questions`, on the CPU."""
    return [
        *("--dataset.name", "workload", "--dataset.path", str(path)),
        *("--dataset.format", "completion", "--dataset.scorer", "number"),
        *("--max-tokens", str(max_tokens)),
    ]


NOISE = 0.05
"""Standard deviation of the noise, relative to that of a weight."""


def checkpoint(model: Path, folder: Path, seed: int) -> Path:
    """Write a copy of a model with noise in its weights, such as a checkpoint of the same training, and return its folder."""
    # Tests make checkpoints with it, and collect faster without torch.
    import torch  # noqa: PLC0415
    from safetensors.torch import load_file, save_file  # noqa: PLC0415

    shutil.copytree(model, folder)
    torch.manual_seed(seed)
    for file in folder.glob("*.safetensors"):
        weights = {
            name: (w + NOISE * w.float().std() * torch.randn_like(w.float())).to(w.dtype)
            for name, w in load_file(file).items()
        }
        save_file(weights, file, metadata={"format": "pt"})
    return folder
