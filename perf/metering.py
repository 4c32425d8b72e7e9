"""Measure the cost of measuring: the share of a run that vLLM's statistics take, and regrade's meter, which adds them up.

    python -m perf.metering [--model infra/demo/regrade-demo] [--requests 5000] [--tokens 64] [--repeats 3] [--extra load_format=dummy]

Clocks run around the meter, and around vLLM's updates of its statistics; their own time is in what they measure. Times of runs with
and without measurements differ by more than the goal without any reason. The goal of both together is 1 %. Run it on an idle machine.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

from perf.measuring import arguments_of, report, spread
from perf.workloads import CACHE_BYTES, MAX_MODEL_LEN, prompts
from regrade.engines.vllm_process.extra import parse_extra
from regrade.engines.vllm_process.meter import Meter

GOAL = 0.01


def main() -> None:
    """Measure and report."""
    from vllm.v1.metrics.stats import IterationStats  # noqa: PLC0415 - slow

    parser = arguments_of(__doc__, "--model", "--gpu", "--extra", "--repeats")
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--tokens", type=int, default=64)
    arguments = parser.parse_args()
    engine, meter = _open(arguments), Meter()
    engine.log_stats = engine.output_processor.log_stats = True
    engine.logger_manager = meter
    _run(engine, 64, 4)
    clocks = (_Clock("regrade's meter"), _Clock("vLLM's statistics"))
    meter.record = clocks[0].around(meter.record)  # type: ignore[method-assign]
    for name in ("update_from_output", "update_from_events", "update_from_finished_request"):
        setattr(IterationStats, name, clocks[1].around(getattr(IterationStats, name)))
    shares: dict[str, list[float]] = {clock.name: [] for clock in clocks}
    for _ in range(arguments.repeats):
        for clock in clocks:
            clock.seconds = 0.0
        meter.restart()
        seconds = _run(engine, arguments.requests, arguments.tokens)
        for clock in clocks:
            shares[clock.name].append(clock.seconds / seconds)
    rows = [{"part": name, "share": spread(found, 5)} for name, found in shares.items()]
    report("metering", rows, goal=GOAL)


class _Clock:
    """Seconds inside some functions, calls that lead from one into another counted once."""

    def __init__(self, name: str) -> None:
        self.name, self.seconds, self._depth = name, 0.0, 0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with this clock around it."""

        def timed(*args: Any, **options: Any) -> Any:  # noqa: ANN401
            self._depth += 1
            started = time.perf_counter()
            try:
                return function(*args, **options)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.seconds += time.perf_counter() - started

        return timed


def _open(arguments: argparse.Namespace) -> Any:  # noqa: ANN401 - vLLM has no types
    from vllm import EngineArgs  # noqa: PLC0415 - slow
    from vllm.v1.engine.llm_engine import LLMEngine  # noqa: PLC0415

    settings: dict[str, Any] = {"model": arguments.model, "enforce_eager": True}
    settings |= {"max_model_len": MAX_MODEL_LEN, **parse_extra(arguments.extra)}
    if arguments.cpu:
        settings |= {"dtype": "float32", "kv_cache_memory_bytes": CACHE_BYTES}
    return LLMEngine.from_engine_args(EngineArgs(**settings))


def _run(engine: Any, requests: int, tokens: int) -> float:  # noqa: ANN401
    """Answer the requests, and return the seconds."""
    from vllm import SamplingParams  # noqa: PLC0415
    from vllm.sampling_params import RequestOutputKind  # noqa: PLC0415

    final = RequestOutputKind.FINAL_ONLY
    params = SamplingParams(max_tokens=tokens, temperature=0.0, ignore_eos=True, output_kind=final)
    started = time.perf_counter()
    for number, prompt in enumerate(prompts(requests)):
        engine.add_request(f"{started}-{number}", prompt, params)
    while engine.has_unfinished_requests():
        engine.step()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
