"""Occupancy of an engine: filling, full, draining and idle seconds from what is in it after each step."""

import pytest

from regrade.stats.occupancy import Occupancy, OccupancyClock


def occupancy(*events: tuple[float, int, bool] | float) -> Occupancy | None:
    """Seconds of arrivals (times) and steps (time, requests in the engine, full)."""
    clock = OccupancyClock()
    for event in events:
        if isinstance(event, tuple):
            clock.step(event[1], full=event[2], now=event[0])
        else:
            clock.arrive(event)
    return clock.result()


def test_an_engine_is_full_from_the_first_to_the_last_step_at_which_requests_wait():
    found = occupancy(
        10.0, (11, 5, False), (12, 9, True), (14, 6, False), (15, 9, True), (19, 0, False)
    )

    assert found == Occupancy(filling=1.0, full=4.0, draining=4.0)


def test_an_engine_that_was_never_full_fills_until_most_requests_are_in_it():
    found = occupancy(0.0, (1, 3, False), (2, 7, False), (3, 7, False), (6, 0, False))

    assert found == Occupancy(filling=2.0, draining=4.0)


def test_tokens_are_counted_while_the_engine_is_full():
    clock = OccupancyClock()
    clock.arrive(0.0)
    for now, full, tokens in ((1, False, 10), (2, True, 20), (4, True, 70), (9, False, 40)):
        clock.step(8, full=full, tokens=tokens, now=now)

    found = clock.result()

    assert (found.full, found.full_tokens, found.full_rate) == (3.0, 90, 30.0)
    assert Occupancy(filling=2.0, draining=4.0).full_rate is None


def test_one_request_at_a_time_counts_from_its_arrival():
    found = occupancy(100.0, (101, 0, False), 101.5, (103, 0, False))

    assert found == Occupancy(draining=2.5, idle=0.5)


@pytest.mark.parametrize(
    ("full", "expected"),
    [
        (False, Occupancy(filling=1.0, draining=4.0, idle=2.0)),
        (True, Occupancy(full=2.0, draining=3.0, idle=2.0)),
    ],
)
def test_time_without_a_request_is_idle_and_no_part_of_another(full: bool, expected: Occupancy):
    found = occupancy(0.0, (1, 9, full), (2, 0, full), 4.0, (5, 2, False), (7, 0, False))

    assert found == expected


def test_requests_that_arrive_while_others_run_end_no_idle_time():
    assert occupancy(0.0, 0.5, (1, 2, False), 1.5, (2, 0, False)) == Occupancy(
        filling=1.0, draining=1.0
    )


def test_nothing_is_known_before_the_first_request():
    assert occupancy() is None
    assert occupancy((1.0, 0, False)) is None
