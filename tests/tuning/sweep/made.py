"""Results of sweeps that were never run."""

from typing import Any

from regrade.tuning.sweep.results import Measured, PairedTest, PointResult, SweepResult

MEASURED: dict[str, Any] = {
    "benchmark": "sums",
    "answer_set_id": "0" * 16,
    "revision": "1" * 40,
    "rows": 100,
    "expected_rows": 100,
    "failed": 0,
    "accuracy": 0.8,
    "accuracy_stderr": 0.04,
    "accuracy_low": 0.7,
    "accuracy_high": 0.9,
    "seconds": 10.0,
    "spread": 0.05,
    "seconds_per_answer": 0.1,
    "answers_per_second": 10.0,
    "tokens_per_second": 50.0,
    "tokens_per_second_per_gpu": 25.0,
    "tokens_per_second_per_user": 30.0,
    "speed_up": 1.0,
    "measured_by": "engine",
    "speed": None,
    "device": "cpu",
    "engine_version": "0.32.0",
    "sessions": 1,
    "model": "org/model",
    "measured_at": "2026-11-22T10:00:00+00:00",
    "figures": {"load_seconds": 1.0, "seconds": 9.0},  # its own seconds are a mean of several times
}


def paired_test(p_value: float) -> PairedTest:
    return PairedTest(
        n=100,
        difference=-0.1,
        low=-0.2,
        high=0.0,
        worse=10,
        better=0,
        test="exact McNemar",
        p_value=p_value,
    )


def point(number: int, in_flight: int, failure: str | None = None, **changes: Any) -> PointResult:
    settings = {"engine.extra": "a|b<script>", "in_flight": str(in_flight)}
    measured = () if failure else (Measured(**(MEASURED | changes)),)
    return PointResult(
        number=number,
        name=f"extra=a|b<script>, in_flight={in_flight}",
        settings=settings,
        in_flight=in_flight,
        gpus=2,
        answers="/answers/sweeps/x",
        benchmarks=measured,
        failure=failure,
    )


def sweep(*points: PointResult) -> SweepResult:
    axes = {
        "engine.extra": ("a|b<script>",),
        "in_flight": tuple(p.settings["in_flight"] for p in points),
    }
    return SweepResult(
        sweep_id="0123456789ab",
        benchmarks=("sums",),
        axes=axes,
        points=points,
        engine_starts=1,
        command="regrade sweep --model org/model --benchmark sums --in-flight 1,4,16",
    )
