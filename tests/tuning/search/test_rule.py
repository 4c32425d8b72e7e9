"""The rule for the fastest settings, on surfaces that are known."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from regrade.engines.vllm import VllmEngine
from regrade.settings.errors import EngineError
from regrade.stats.speed import Speed, Spread
from regrade.tuning.plan.plan import ChosenSplit, Margin, MemoryPlan, SplitPlan, Target
from regrade.tuning.search.job import LatencyLimits
from regrade.tuning.search.records import TrialRecord
from regrade.tuning.search.rule import MOST, TOKENS, Search, Split, StartedEngine, splits_to_try

Surface = Callable[[Mapping[str, int], int], float]
ANY: list[Split] = [({}, MOST)]
"""One split, in which everything fits."""


@dataclass
class Machine:
    """Engines whose rate is a function of settings and requests in flight."""

    surface: Surface
    most: int = 256
    noise: Iterator[float] | None = None
    seconds: Iterator[float] | None = None
    """Times to the first token, in the order of the measurements."""
    started: list[dict[str, int]] = field(default_factory=list)
    measured: list[int] = field(default_factory=list)

    @contextmanager
    def start(self, number: int, settings: Mapping[str, int]) -> Iterator[StartedEngine]:
        self.started.append(dict(settings))
        in_effect = {TOKENS: 4096, **settings}

        def measure(in_flight: int) -> TrialRecord:
            self.measured.append(in_flight)
            noise = 1.0 if self.noise is None else next(self.noise)
            at = 0.01 * in_flight if self.seconds is None else next(self.seconds, 0.9)
            return TrialRecord(
                start=number,
                settings=in_effect,
                in_flight=in_flight,
                rate=self.surface(in_effect, in_flight) * noise,
                requests=32,
                seconds=1.0,
                speed=Speed(ttft=Spread(mean=at, p25=at, p50=at, p75=at, p99=at, n=9)),
            )

        yield StartedEngine(self.most, measure)

    def found(self, splits: list[Split] = ANY, most_starts: int = 4, **limits: float) -> Search:
        """What the rule finds on this machine."""
        search = Search(self.start, LatencyLimits(**limits), most_starts)
        search.run(splits)
        return search


def peak_at(top: int) -> Surface:
    """Grows with the requests in flight up to `top`, then falls."""
    return lambda _, n: n / top if n <= top else (top / n) ** 0.3


def best(found: Search) -> tuple[int, dict[str, int]]:
    chosen = found.best()
    assert chosen is not None
    return chosen.in_flight, chosen.settings


def splits(*sizes: int, **more: int) -> list[Split]:
    return [({"tensor_parallel_size": size, **more}, MOST) for size in sizes]


def test_the_top_is_found_although_throughput_falls_behind_it():
    machine = Machine(peak_at(32))
    assert best(machine.found())[0] == 32
    assert max(machine.measured[:6]) == 128  # two steps past the top
    assert 256 not in machine.measured


def test_a_dip_does_not_end_the_climb():
    rates = {8: 1.0, 16: 2.0, 32: 1.9, 64: 4.0, 128: 8.0, 256: 16.0}
    assert best(Machine(lambda _, n: rates[n]).found(most_starts=1))[0] == 256


def test_of_settings_that_differ_less_than_the_noise_the_smaller_wins():
    noise = iter([1.0, 1.0, 1.0, 1.0, 1.02, 0.98, 0.99, 1.01, *[1.0] * 9])
    rates = {8: 0.5, 16: 0.985, 32: 1.0, 64: 0.9}
    found = Machine(lambda _, n: rates.get(n, 0.1), most=64, noise=noise).found(most_starts=1)
    assert found.spread > 0.015
    assert best(found)[0] == 16


def test_without_noise_the_faster_wins():
    rates = {8: 0.5, 16: 0.985, 32: 1.0, 64: 0.9}
    machine = Machine(lambda _, n: rates.get(n, 0.1), most=64)
    assert best(machine.found(most_starts=1))[0] == 32


def test_tokens_of_a_step_are_doubled_while_that_helps():
    machine = Machine(lambda settings, n: min(n, 32) * min(settings[TOKENS], 16384))
    found = machine.found()
    assert [entry.get(TOKENS) for entry in machine.started] == [None, 8192, 16384, 32768]
    assert best(found) == (32, {TOKENS: 16384})
    assert found.starts == 4


def test_tokens_of_a_step_are_halved_if_doubling_does_not_help():
    machine = Machine(lambda settings, n: min(n, 32) / settings[TOKENS])
    found = machine.found()
    assert [entry.get(TOKENS) for entry in machine.started] == [None, 8192, 2048, 1024]
    assert best(found)[1] == {TOKENS: 1024}


def test_tokens_of_a_step_stay_if_answers_are_most_of_the_work():
    search = Search(Machine(peak_at(32)).start)
    search.run(ANY, lambda: False)
    assert search.starts == 1
    assert "not varied" in search.remarks[-1]


def test_tokens_of_a_step_that_were_set_by_hand_stay():
    machine = Machine(lambda settings, n: min(n, 32) * settings[TOKENS])
    found = machine.found([({TOKENS: 1024}, MOST)])
    assert machine.started == [{TOKENS: 1024}]
    assert best(found) == (32, {TOKENS: 1024})
    assert found.remarks == [f"{TOKENS} not varied: set by hand"]


def test_tokens_that_were_set_by_hand_leave_all_starts_to_the_splits():
    machine = Machine(lambda settings, n: min(n, 32) * settings["tensor_parallel_size"])
    assert machine.found(splits(1, 2, 4, 8, **{TOKENS: 1024})).starts == 4


def test_a_split_whose_memory_holds_fewer_requests_than_are_fastest_is_not_started():
    machine = Machine(peak_at(64))
    found = machine.found([({"tensor_parallel_size": 2}, 500), ({"tensor_parallel_size": 1}, 20)])
    assert all(entry["tensor_parallel_size"] == 2 for entry in machine.started)
    assert "its KV cache holds 20 requests" in found.remarks[0]


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_no_more_starts_are_taken_than_are_allowed(most: int):
    machine = Machine(lambda settings, n: n * settings[TOKENS])
    assert machine.found(splits(1, 2, 4, 8), most).starts == len(machine.started) == most


def test_the_most_requests_within_a_limit_are_found_by_doubling_and_bisection():
    machine = Machine(lambda _, n: float(n))
    found = machine.found(ttft_p99=0.455, most_starts=1)
    assert 43 <= best(found)[0] <= 45
    assert machine.measured[:7] == [1, 2, 4, 8, 16, 32, 64]
    assert len(machine.measured) < 15


def test_a_limit_that_nothing_reaches_does_not_lengthen_the_climb():
    machine = Machine(peak_at(8))
    assert best(machine.found(ttft_p99=100.0, most_starts=1))[0] == 8
    assert max(machine.measured) == 32


def test_settings_that_break_a_limit_when_measured_again_are_not_chosen():
    seconds = iter([0.1, 0.2, 0.3, 0.9, 0.9])  # 1, 2, 4, 8, then 6
    found = Machine(lambda _, n: float(n), seconds=seconds).found(ttft_p99=0.5, most_starts=1)
    assert [trial.in_flight for trial in found.trials if trial.broken] == [8, 6, 5, 4, 4]
    assert best(found)[0] == 2


def test_nothing_is_chosen_if_every_measurement_breaks_a_limit():
    found = Machine(peak_at(8)).found(ttft_p99=0.001)
    assert found.best() is None
    assert found.trials[0].broken == "TTFT p99 0.01 s is above 0.001 s"


def test_a_limit_on_what_was_not_measured_is_broken():
    found = Machine(peak_at(8)).found(tpot_p99=1.0)
    assert found.trials[0].broken == "TPOT was not measured"


def test_an_engine_that_does_not_start_costs_only_its_split():
    machine = Machine(peak_at(32))

    @contextmanager
    def start(number: int, settings: Mapping[str, int]) -> Iterator[StartedEngine]:
        if settings.get("tensor_parallel_size") == 1:
            raise EngineError("The engine did not start: out of memory.")
        with machine.start(number, settings) as engine:
            yield engine

    found = Search(start)
    found.run(splits(1, 2))
    assert best(found)[1]["tensor_parallel_size"] == 2
    assert "out of memory" in found.remarks[0]


@pytest.mark.parametrize("top", [8, 16, 64, 200])
def test_the_choice_is_within_five_percent_of_the_best(top: int):
    surface = peak_at(top)
    found = Machine(surface).found(most_starts=1)
    at_top = max(surface({}, n) for n in (8, 16, 32, 64, 128, 256))
    assert surface({}, best(found)[0]) >= 0.95 * at_top


# The splits of a plan.


def split(tensor: int, data: int, concurrency: float, **changes: Any) -> SplitPlan:
    return SplitPlan(tensor=tensor, pipeline=1, data=data, concurrency=concurrency, **changes)


PLAN = MemoryPlan(
    model="org/name",
    revision="a" * 40,
    parameters=8,
    vllm="0.32.0",
    target=Target(gpu="h100", gpus=4, memory=80, usable=70),
    dtype="bfloat16",
    max_model_len=1000,
    length_source="the benchmark",
    margin=Margin(bytes=1, measured=False, source="assumed"),
    splits=(split(1, 4, 2.0, lacking=5), split(4, 1, 500.0), split(2, 2, 120.0)),
    choice=ChosenSplit(tensor=2, pipeline=1, data=2, reason="fits"),
    advice="fits",
)


def test_the_choice_of_the_plan_comes_first_and_what_does_not_fit_is_left_out():
    found = splits_to_try(VllmEngine(), PLAN)
    assert [tuple(settings.values()) for settings, _ in found] == [(2, 1, 2), (4, 1, 1)]
    assert [most for _, most in found] == [960, 2000]


def test_tokens_of_a_step_that_were_set_by_hand_are_in_every_split():
    engine = VllmEngine(max_num_batched_tokens=4096)
    for found in (splits_to_try(engine, PLAN), splits_to_try(engine)):
        assert {settings["max_num_batched_tokens"] for settings, _ in found} == {4096}


def test_without_a_plan_the_split_is_the_one_of_the_settings():
    assert splits_to_try(VllmEngine()) == ANY
    assert splits_to_try(VllmEngine(tensor_parallel_size=8)) == splits(8)
