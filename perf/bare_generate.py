"""Bare `LLM.generate`, which perf/engine_overhead.py compares regrade's engine with.

`python -m perf.bare_generate SETTINGS DESCRIPTOR` reads workloads (requests and tokens as a JSON list) from stdin, one per line, runs each, and
writes its wall-clock and CPU seconds to the file descriptor.
"""

import json
import os
import sys
import time

from vllm import LLM, SamplingParams

from perf.workloads import CACHE_BYTES, MAX_MODEL_LEN, prompts
from regrade.engines.vllm_process.extra import parse_extra


def main() -> None:
    """Load the model, then run workloads until stdin ends."""
    settings, descriptor = json.loads(sys.argv[1]), int(sys.argv[2])
    cpu = {"dtype": "float32", "kv_cache_memory_bytes": CACHE_BYTES} if settings["cpu"] else {}
    share = settings["gpu_memory_utilization"]
    shared = {} if share is None else {"gpu_memory_utilization": share}
    llm = LLM(
        model=settings["model"],
        max_model_len=MAX_MODEL_LEN,
        enforce_eager=settings["enforce_eager"],
        **(cpu | shared | parse_extra(settings["extra"])),
    )
    for line in sys.stdin:
        requests, max_tokens = json.loads(line)
        params = SamplingParams(temperature=0, max_tokens=max_tokens)
        texts = prompts(requests)
        started, processor = time.perf_counter(), time.process_time()
        outputs = llm.generate(texts, params, use_tqdm=False)
        times = [time.perf_counter() - started, time.process_time() - processor]
        if len(outputs) != requests:
            raise SystemExit(f"{len(outputs)} of {requests} requests were answered")
        os.write(descriptor, json.dumps(times).encode() + b"\n")


if __name__ == "__main__":
    main()
