"""The page of a sweep: tables, conclusions with a correction for the number of points, and plots."""

from regrade.stats.curves import curve_chart
from regrade.text.markdown import markdown
from regrade.tuning.sweep.text import blocks, notes, plots, result_rows, sentences
from tests.tuning.sweep.made import paired_test, point, sweep


def test_a_difference_is_told_only_if_it_survives_the_correction_for_all_points():
    many = sweep(point(0, 1), *(point(n, 2**n, test=paired_test(0.02)) for n in range(1, 5)))
    one = sweep(point(0, 1), point(1, 4, test=paired_test(0.02), speed_up=3.0))
    *_, of_many = sentences(many, "sums")
    *_, of_one = sentences(one, "sums")
    assert of_many.endswith(
        "Each point is within 20.00 points of it, as far as 100 questions show."
    )
    assert "is worse than at the first point" in of_one


def test_a_failed_point_is_a_row_with_its_reason_below_and_has_no_place_in_plots():
    found = sweep(point(0, 1), point(1, 4, failure="out of memory"), point(2, 16))
    rows = list(result_rows(found, "sums"))
    assert [row[2] for row in rows] == ["80.0 ± 4.0 %", "failed", "80.0 ± 4.0 %"]
    assert list(notes(found, "sums")) == ["extra=a|b<script>, in_flight=4: out of memory"]
    assert len({len(row) for row in rows}) == 1
    (throughput, per_user, cost) = plots(found)
    assert [place.x for place in throughput.curves[0].places] == [1, 16]
    assert [(place.x, place.y) for place in per_user.curves[0].places] == [(30.0, 25.0)] * 2
    assert len(cost.curves) == 2
    for plot in (throughput, per_user, cost):
        assert curve_chart(plot.curves, plot.axes).startswith(b"\x89PNG")


def test_without_all_answers_of_the_first_point_there_is_no_speed_up():
    for first in (point(0, 1, failure="out of memory"), point(0, 1, failed=3, speed_up=None)):
        told = list(sentences(sweep(first, point(1, 4, speed_up=None)), "sums"))
        assert told[0].startswith("No speed-up: the first point, extra=a|b<script>, in_flight=1,")
        assert not any(text.startswith("Fastest") for text in told)


def test_a_point_that_lacks_answers_is_not_the_fastest():
    found = sweep(point(0, 1), point(1, 4, failed=90, speed_up=None), point(2, 16, speed_up=2.0))
    assert next(sentences(found, "sums")).startswith("Fastest: extra=a|b<script>, in_flight=16")
    (_, _, cost) = plots(found)
    assert [curve.places[0].x for curve in cost.curves] == [0.1, 1.0, 0.1]  # seconds per answer


def test_the_fastest_is_faster_by_more_than_the_spread_of_the_speeds():
    def told(*speeds: tuple[float, float | None]) -> str:
        points = (
            point(n, 4**n, speed_up=speed, spread=spread)
            for n, (speed, spread) in enumerate(speeds)
        )
        return next(sentences(sweep(*points), "sums"))

    assert told((1.0, 0.05), (1.5, 0.05), (1.2, 0.05)) == (
        "Fastest: extra=a|b<script>, in_flight=4, 1.50 times as fast as extra=a|b<script>, in_flight=1."
    )
    assert told((1.0, 0.05), (1.5, 0.05), (1.45, 0.05)).endswith(
        "and within the spread of its speed: extra=a|b<script>, in_flight=16."
    )
    for unclear in (((1.0, 0.05), (1.06, 0.05)), ((1.0, 0.05), (3.0, None))):
        assert told(*unclear).startswith("No point is the fastest")


def test_untrusted_texts_stay_text_on_the_page():
    page = markdown(blocks(sweep(point(0, 1), point(1, 4)), {"throughput": "throughput.png"}))
    assert "<script>" not in page
    assert "](throughput.png)" in page
    assert "accuracy-over-cost" not in page  # no image of it was given


def test_the_legend_of_a_plot_names_what_its_numbers_are():
    points = [
        point(number, n).model_copy(update={"settings": {"in_flight": str(n)}})
        for number, n in enumerate((1, 4))
    ]
    result = sweep(*points).model_copy(update={"axes": {"in_flight": ("1", "4")}})
    (cost,) = [plot for plot in plots(result) if plot.file == "accuracy-over-cost"]
    assert [curve.name for curve in cost.curves] == ["1 in flight", "4 in flight"]


def test_a_first_point_that_is_the_fastest_is_not_compared_with_itself():
    slow = point(1, 4, speed_up=0.5)
    said = list(sentences(sweep(point(0, 1), slow), "sums"))
    assert said[0].endswith("in_flight=1, the point that the others are compared with.")
