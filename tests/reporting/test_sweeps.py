"""The page of a sweep: tables, conclusions with a correction for the number of points, and plots."""

from typing import Any

from regrade.reporting.sweeps import plots, result_rows, sentences, sweep_page
from regrade.stats.curves import curve_chart
from regrade.sweeping.results import Measured, PairedTest, PointResult, SweepResult

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
    "load_seconds": 1.0,
    "seconds_per_answer": 0.1,
    "answers_per_second": 10.0,
    "prompt_tokens": 900,
    "completion_tokens": 500,
    "tokens_per_second": 50.0,
    "tokens_per_second_per_gpu": 25.0,
    "tokens_per_second_per_user": 30.0,
    "speed_up": 1.0,
    "measured_by": "engine",
    "speed": None,
    "device": "cpu",
    "engine_version": "0.32.0",
    "sessions": 1,
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
        sweep_id="0123456789ab", benchmarks=("sums",), axes=axes, points=points, engine_starts=1
    )


def test_a_difference_is_told_only_if_it_survives_the_correction_for_all_points():
    many = sweep(point(0, 1), *(point(n, 2**n, test=paired_test(0.02)) for n in range(1, 5)))
    one = sweep(point(0, 1), point(1, 4, test=paired_test(0.02), speed_up=3.0))
    assert any("No point's accuracy differs" in text for text in sentences(many, "sums"))
    told = list(sentences(one, "sums"))
    assert told[0].startswith("Fastest: extra=a|b<script>, in_flight=4, 3.00 times as fast")
    assert "in_flight=4 is worse than at the first point: -10.00 points (p = 0.0200" in told[1]


def test_a_failed_point_is_a_row_with_its_reason_and_has_no_place_in_plots():
    found = sweep(point(0, 1), point(1, 4, failure="out of memory"), point(2, 16))
    rows = list(result_rows(found, "sums"))
    assert [row[2] for row in rows] == ["80.0 ± 4.0 %", "out of memory", "80.0 ± 4.0 %"]
    assert len({len(row) for row in rows}) == 1
    (throughput, per_user, cost) = plots(found)
    assert [place.x for place in throughput.curves[0].places] == [1, 16]
    assert [(place.x, place.y) for place in per_user.curves[0].places] == [(30.0, 25.0)] * 2
    assert len(cost.curves) == 2
    for plot in (throughput, per_user, cost):
        assert curve_chart(plot.curves, plot.axes).startswith(b"\x89PNG")


def test_without_all_answers_of_the_first_point_there_is_no_speed_up():
    for first in (
        point(0, 1, failure="out of memory"),
        point(0, 1, failed=3, speed_up=None),
    ):
        told = list(sentences(sweep(first, point(1, 4, speed_up=None)), "sums"))
        assert told[0].startswith("No speed-up: the first point, extra=a|b<script>, in_flight=1,")
        assert not any(text.startswith("Fastest") for text in told)


def test_a_point_that_lacks_answers_is_not_the_fastest():
    found = sweep(point(0, 1), point(1, 4, failed=90, speed_up=None), point(2, 16, speed_up=2.0))
    assert next(sentences(found, "sums")).startswith("Fastest: extra=a|b<script>, in_flight=16")
    (_, _, cost) = plots(found)
    assert [curve.places[0].x for curve in cost.curves] == [0.1, 1.0, 0.1]  # seconds per answer


def test_untrusted_texts_stay_text_on_the_page():
    page = sweep_page(sweep(point(0, 1), point(1, 4)), {"throughput": "throughput.png"})
    assert "<script>" not in page
    assert "](throughput.png)" in page
    assert "accuracy-over-cost" not in page  # no image of it was given
