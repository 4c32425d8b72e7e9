"""The bare `LLM.generate` that perf/engine_overhead.py compares with.

`python -m perf.bare_generate ORDER ANSWERS`: does the workloads that stdin names, a line each, and writes the seconds
and CPU seconds of each to the descriptor ANSWERS.
"""

import json
import os
import sys
import time

from vllm import LLM, SamplingParams

from perf.workloads import MAX_MODEL_LEN, WARM_UP, WORKLOADS
from regrade.engines.vllm_process.engine import parse_extra


def main() -> None:
    """Load, then measure until stdin ends."""
    order, answers = json.loads(sys.argv[1]), int(sys.argv[2])
    cpu = {"dtype": "float32", "kv_cache_memory_bytes": 1 << 30} if order["cpu"] else {}
    llm = LLM(
        model=order["model"],
        max_model_len=MAX_MODEL_LEN,
        enforce_eager=order["enforce_eager"],
        **(cpu | parse_extra(order["extra"])),
    )
    workloads = {workload.name: workload for workload in (WARM_UP, *WORKLOADS)}
    for line in sys.stdin:
        workload = workloads[line.strip()]
        params = SamplingParams(temperature=0, max_tokens=workload.max_tokens)
        prompts = workload.prompts()
        started, processor = time.perf_counter(), time.process_time()
        outputs = llm.generate(prompts, params, use_tqdm=False)
        times = [time.perf_counter() - started, time.process_time() - processor]
        if len(outputs) != workload.requests:
            raise SystemExit(f"{len(outputs)} of {workload.requests} came back")
        os.write(answers, json.dumps(times).encode() + b"\n")


if __name__ == "__main__":
    main()
