"""Compare a vLLM that measures nothing with one whose statistics regrade's meter adds up: the cost of measuring.

    python -m perf.metering [--model infra/demo/regrade-demo] [--requests 5000] [--tokens 64] [--repeats 3] [--extra load_format=dummy]

One engine, whose measurements are switched between the repetitions: `off` keeps no times, `vllm` keeps vLLM's own
statistics of each request, `meter` adds them up after each step as regrade does. The modes take turns, so that other work
on the machine slows all; `cost` compares the fastest times. The goal is 1 %. Run it on an idle machine.

Times of the modes differ by more than the goal without any reason, so a last run has clocks inside: around the meter, and around
vLLM's updates of its statistics. `share` is what they took of that run; the clocks' own time is in it.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

from perf.measuring import arguments_of
from perf.workloads import CACHE_BYTES, MAX_MODEL_LEN, prompts
from regrade.engines.vllm_process.extra import parse_extra
from regrade.engines.vllm_process.meter import Meter

MODES = ("off", "vllm", "meter")
GOAL = 0.01


def main() -> None:
    """Print the table; write JSON if `--json` is given."""
    parser = arguments_of(__doc__, "--model", "--gpu", "--extra", "--repeats", "--json")
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--tokens", type=int, default=64)
    arguments = parser.parse_args()
    engine, meter = _open(arguments), Meter()
    _run(engine, 64, 4)
    seconds: dict[str, list[float]] = {mode: [] for mode in MODES}
    for _ in range(arguments.repeats):
        for mode in MODES:
            _measure(engine, meter, mode)
            seconds[mode].append(_run(engine, arguments.requests, arguments.tokens))
    fastest = {mode: min(times) for mode, times in seconds.items()}
    rows = [
        {
            "mode": mode,
            "fastest": fastest[mode],
            "cost": fastest[mode] / fastest["off"] - 1,
            "seconds": seconds[mode],
        }
        for mode in MODES
    ]
    clocks, total = _clocked(engine, meter, arguments)
    print(f"{arguments.requests:,} x {arguments.tokens} tokens; goal: {GOAL:.0%}")
    for row in rows:
        print(f"{row['mode']:<6} {row['fastest']:>8.2f} s {row['cost']:>+8.2%}")
    for clock in clocks:
        print(
            f"inside {clock.name}: {clock.seconds:.2f} s, {clock.seconds / total:.2%} of {total:.2f} s"
        )
    if arguments.json is not None:
        inside = [
            {"part": clock.name, "seconds": clock.seconds, "share": clock.seconds / total}
            for clock in clocks
        ]
        arguments.json.write_text(json.dumps({"modes": rows, "inside": inside}, indent=2))


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


def _clocked(
    engine: Any,  # noqa: ANN401
    meter: Meter,
    arguments: argparse.Namespace,
) -> tuple[tuple[_Clock, ...], float]:
    """Answer the requests once more with clocks; return these, and the seconds of the run."""
    from vllm.v1.metrics.stats import IterationStats  # noqa: PLC0415

    ours, theirs = _Clock("regrade's meter"), _Clock("vLLM's statistics")
    _measure(engine, meter, "meter")
    meter.record = ours.around(meter.record)  # type: ignore[method-assign]
    for name in ("update_from_output", "update_from_events", "update_from_finished_request"):
        setattr(IterationStats, name, theirs.around(getattr(IterationStats, name)))
    total = _run(engine, arguments.requests, arguments.tokens)
    return (ours, theirs), total


def _open(arguments: argparse.Namespace) -> Any:  # noqa: ANN401 - vLLM has no types
    from vllm import EngineArgs  # noqa: PLC0415 - slow
    from vllm.v1.engine.llm_engine import LLMEngine  # noqa: PLC0415

    settings: dict[str, Any] = {"model": arguments.model, "enforce_eager": True}
    settings |= {"max_model_len": MAX_MODEL_LEN, **parse_extra(arguments.extra)}
    if arguments.cpu:
        settings |= {"dtype": "float32", "kv_cache_memory_bytes": CACHE_BYTES}
    return LLMEngine.from_engine_args(EngineArgs(**settings))


def _measure(engine: Any, meter: Meter, mode: str) -> None:  # noqa: ANN401
    """Switch the measurements of the process that feeds the engine."""
    engine.log_stats = engine.output_processor.log_stats = mode != "off"
    engine.logger_manager = meter if mode == "meter" else None
    meter.restart()


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
