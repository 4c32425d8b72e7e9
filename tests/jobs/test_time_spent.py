"""Parts of a run's time: they add up, the bar shows them in order, and the advice is about the largest."""

import pytest

from regrade.jobs import time_spent as module
from regrade.jobs.time_spent import RunClock, TimeSpent
from regrade.stats.occupancy import Occupancy
from regrade.text.markdown import markdown


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which tests set."""
    time = [100.0]
    monkeypatch.setattr(module, "monotonic", lambda: time[0])
    return time


def spent(clock: RunClock, tokens: int = 0, lost_tokens: int = 0) -> TimeSpent:
    found = clock.spent(tokens, lost_tokens)
    assert found is not None
    return found


def spent_of(now: list[float]) -> TimeSpent:
    """A run of 100 s: 5 before loading, 30 of loading with 10 of compiling, 40 of generating, 25 after it."""
    clock = RunClock(begun=0.0)
    now[0] = 35.0
    clock.loaded(load_seconds=30.0, compile_seconds=10.0)
    now[0] = 75.0
    clock.generated(started=35.0, occupancy=Occupancy(filling=1, full=30, draining=8, idle=0.5))
    now[0] = 100.0
    return spent(clock, tokens=1000, lost_tokens=31)


def test_the_parts_add_up_to_the_seconds_from_the_start_of_the_command_in_the_order_of_time(
    now: list[float],
):
    found = spent_of(now)

    assert sum(found.parts.values()) == found.seconds == 100.0
    assert found.text == (
        "Where the time went, 100.0 s: ░ loading 20.0 s, ▒ compiling 10.0 s, ▂ filling 1.0 s, █ full 30.0 s, ▅ draining 8.0 s, "
        "· idle 31.0 s (5.0 s before loading, 25.0 s after the last answer); 26 tokens/s while answering; 3.1 % of the tokens in failed or truncated answers."
    )
    assert found.bar == "···" + "░" * 12 + "▒" * 6 + "▂" + "█" * 18 + "▅" * 4 + "·" * 16


@pytest.mark.parametrize(
    ("parts", "before", "advice"),
    [
        ({"loading": 9.0, "full": 1.0}, 0.0, "share a load"),
        ({"compiling": 9.0, "full": 1.0}, 0.0, "`--engine.enforce-eager`"),
        ({"full": 9.0, "idle": 1.0}, 1.0, "`regrade tune`"),
        ({"draining": 9.0, "idle": 1.0}, 1.0, "`--max-tokens`"),
        ({"full": 1.0, "idle": 9.0}, 8.0, "`PREFECT_API_URL`"),
        ({"full": 1.0, "idle": 9.0}, 1.0, "`regrade score`"),
    ],
)
def test_the_advice_would_take_the_largest_part_away(
    parts: dict[module.Part, float], before: float, advice: str
):
    idle = {"before": before, "after": parts.get("idle", 0.0) - before}
    found = TimeSpent(seconds=10.0, parts=parts, tokens=10, lost_tokens=0, **idle)

    assert f"Most of it was {found.largest}." in markdown([*found.blocks()])
    assert found.advice is not None
    assert advice in found.advice
    assert found.model_dump(mode="json")["advice"] == found.advice
    fixed = found.model_copy(update={"advised": False})
    assert "Most of it" not in markdown([*fixed.blocks()])
    assert fixed.model_dump(mode="json")["advice"] is None


def test_the_advice_for_several_loads_says_what_shares_one(now: list[float]):
    run = spent_of(now).model_copy(update={"parts": {"loading": 9.0}})

    assert run.advice is not None
    assert "share a load" in run.advice
    several = run.model_copy(update={"loads": 2}).advice
    assert several is not None
    assert several.startswith("An engine was loaded 2 times")


def test_several_models_in_a_run_add_up(now: list[float]):
    clock = RunClock(begun=100.0)
    for weights_only in (False, True):
        now[0] += 3
        clock.loaded(load_seconds=3.0, compile_seconds=0.0, weights_only=weights_only)
        started, now[0] = now[0], now[0] + 7
        clock.generated(started, Occupancy(full=7))

    found = spent(clock)

    assert found.parts == {"loading": 6.0, "full": 14.0}
    assert found.loads == 1


def test_time_in_which_another_runs_engine_is_waited_for_is_idle(now: list[float]):
    clock = RunClock(begun=100.0)
    now[0] = 160.0
    clock.loaded(load_seconds=10.0, compile_seconds=0.0)

    found = spent(clock)

    assert (found.parts, found.before) == ({"loading": 10.0, "idle": 50.0}, 50.0)


def test_an_engine_that_does_not_tell_how_full_it_was_generates(now: list[float]):
    clock = RunClock(begun=100.0)
    clock.loaded(load_seconds=0.0, compile_seconds=0.0)
    now[0] = 104.0
    clock.generated(started=100.0, occupancy=None)

    found = spent(clock)

    assert found.parts == {"generating": 4.0}


def test_a_run_without_an_engine_has_no_parts():
    assert RunClock().spent(tokens=0, lost_tokens=0) is None


def test_a_run_of_several_models_counts_what_is_counted_for_each_and_the_time_before_and_between(
    now: list[float],
):
    whole = RunClock(begun=90.0, advised=False)
    for model in range(2):
        now[0] += 20  # until it comes
        one = RunClock(begun=now[0], around=whole)
        now[0] += 3
        one.loaded(load_seconds=3.0, compile_seconds=1.0, weights_only=model > 0)
        started, now[0] = now[0], now[0] + 7
        one.generated(started, Occupancy(full=7))
        assert spent(one).parts == {"loading": 2.0, "compiling": 1.0, "full": 7.0}

    found = spent(whole, tokens=30)

    assert found.parts == {"loading": 4.0, "compiling": 2.0, "full": 14.0, "idle": 50.0}
    assert found.seconds == sum(found.parts.values()) == 70.0
    assert (found.before, found.loads, found.tokens) == (30.0, 1, 30)
