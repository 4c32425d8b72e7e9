"""The search for the fastest settings, on surfaces that are known."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest

from regrade.settings.errors import EngineError
from regrade.stats.speed import Speed, Spread
from regrade.tuning.search.search import TOKENS, Split, search
from regrade.tuning.search.trials import Limits, Rung, Search

Surface = Callable[[Mapping[str, int], int], float]


@dataclass
class Machine:
    """Engines whose rate is a function of settings and requests in flight."""

    surface: Surface
    most: int = 256
    noise: Iterator[float] | None = None
    started: list[dict[str, int]] = field(default_factory=list)
    measured: list[int] = field(default_factory=list)

    @contextmanager
    def start(self, settings: Mapping[str, int]) -> Iterator["Started"]:
        self.started.append(dict(settings))
        yield Started(self, {TOKENS: 4096, **settings})


@dataclass
class Started:
    machine: Machine
    settings: dict[str, int]

    @property
    def batched_tokens(self) -> int:
        return self.settings[TOKENS]

    @property
    def most_in_flight(self) -> int:
        return self.machine.most

    def measure(self, in_flight: int) -> Rung:
        self.machine.measured.append(in_flight)
        rate = self.machine.surface(self.settings, in_flight)
        if self.machine.noise is not None:
            rate *= next(self.machine.noise)
        seconds = 0.01 * in_flight
        spread = Spread(mean=seconds, p25=seconds, p50=seconds, p75=seconds, p99=seconds, n=9)
        return Rung(in_flight, rate, 32, 1.0, Speed(ttft=spread))


def peak_at(top: int) -> Surface:
    """Grows with the requests in flight up to `top`, then falls."""
    return lambda _, n: n / top if n <= top else (top / n) ** 0.3


def best(found: Search) -> tuple[int, dict[str, int]]:
    chosen = found.best()
    assert chosen is not None
    return chosen.in_flight, chosen.settings


def test_the_top_is_found_although_throughput_falls_behind_it():
    machine = Machine(peak_at(32))
    found = search(machine.start, [Split({})])
    assert best(found)[0] == 32
    assert max(machine.measured[:6]) == 128  # two steps past the top
    assert 256 not in machine.measured


def test_a_dip_does_not_end_the_climb():
    rates = {8: 1.0, 16: 2.0, 32: 1.9, 64: 4.0, 128: 8.0, 256: 16.0}
    found = search(Machine(lambda _, n: rates[n]).start, [Split({})], most_starts=1)
    assert best(found)[0] == 256


def test_of_settings_that_differ_less_than_the_noise_the_smaller_wins():
    noise = iter([1.0, 1.0, 1.0, 1.0, 1.02, 0.98, 0.99, 1.01, *[1.0] * 9])
    rates = {8: 0.5, 16: 0.985, 32: 1.0, 64: 0.9}
    found = search(
        Machine(lambda _, n: rates.get(n, 0.1), most=64, noise=noise).start,
        [Split({})],
        most_starts=1,
    )
    assert found.spread > 0.015
    assert best(found)[0] == 16


def test_without_noise_the_faster_wins():
    rates = {8: 0.5, 16: 0.985, 32: 1.0, 64: 0.9}
    machine = Machine(lambda _, n: rates.get(n, 0.1), most=64)
    assert best(search(machine.start, [Split({})], most_starts=1))[0] == 32


def test_tokens_of_a_step_are_doubled_while_that_helps():
    machine = Machine(lambda settings, n: min(n, 32) * min(settings[TOKENS], 16384))
    found = search(machine.start, [Split({})])
    assert [entry.get(TOKENS) for entry in machine.started] == [None, 8192, 16384, 32768]
    assert best(found) == (32, {TOKENS: 16384})
    assert found.starts == 4


def test_tokens_of_a_step_are_halved_if_doubling_does_not_help():
    machine = Machine(lambda settings, n: min(n, 32) / settings[TOKENS])
    found = search(machine.start, [Split({})])
    assert [entry.get(TOKENS) for entry in machine.started] == [None, 8192, 2048, 1024]
    assert best(found)[1] == {TOKENS: 1024}


def test_tokens_of_a_step_stay_if_answers_are_most_of_the_work():
    machine = Machine(peak_at(32))
    found = search(machine.start, [Split({})], prompts_matter=lambda: False)
    assert found.starts == 1
    assert "not varied" in found.remarks[-1]


def test_tokens_of_a_step_that_were_set_by_hand_stay():
    machine = Machine(lambda settings, n: min(n, 32) * settings[TOKENS])
    found = search(machine.start, [Split({TOKENS: 1024})])
    assert machine.started == [{TOKENS: 1024}]
    assert best(found) == (32, {TOKENS: 1024})
    assert found.remarks == [f"{TOKENS} not varied: set by hand"]


def test_tokens_that_were_set_by_hand_leave_all_starts_to_the_splits():
    machine = Machine(lambda settings, n: min(n, 32) * settings["tensor_parallel_size"])
    splits = [Split({"tensor_parallel_size": size, TOKENS: 1024}) for size in (1, 2, 4, 8)]
    assert search(machine.start, splits).starts == 4


def test_a_split_whose_memory_holds_fewer_requests_than_are_fastest_is_not_started():
    machine = Machine(peak_at(64))
    splits = [Split({"tensor_parallel_size": 2}, 500), Split({"tensor_parallel_size": 1}, 20)]
    found = search(machine.start, splits)
    assert all(entry["tensor_parallel_size"] == 2 for entry in machine.started)
    assert "its KV cache holds 20 requests" in found.remarks[0]


def test_no_more_starts_are_taken_than_are_allowed():
    splits = [Split({"tensor_parallel_size": size}) for size in (1, 2, 4, 8)]
    for most in (1, 2, 3, 4):
        machine = Machine(lambda settings, n: n * settings[TOKENS])
        assert (
            search(machine.start, splits, most_starts=most).starts == len(machine.started) == most
        )


def test_the_most_requests_within_a_limit_are_found_by_doubling_and_bisection():
    machine = Machine(lambda _, n: float(n))
    found = search(machine.start, [Split({})], limits=Limits(ttft=0.455), most_starts=1)
    assert 43 <= best(found)[0] <= 45
    assert machine.measured[:7] == [1, 2, 4, 8, 16, 32, 64]
    assert len(machine.measured) < 15


def test_settings_that_break_a_limit_when_measured_again_are_not_chosen():
    seconds = iter([0.1, 0.2, 0.3, 0.9, 0.9])  # 1, 2, 4, 8, then 6

    class Noisy(Started):
        def measure(self, in_flight: int) -> Rung:
            rung = super().measure(in_flight)
            at = next(seconds, 0.9)
            spread = Spread(mean=at, p25=at, p50=at, p75=at, p99=at, n=9)
            return replace(rung, speed=Speed(ttft=spread))

    @contextmanager
    def start(settings: Mapping[str, int]) -> Iterator[Noisy]:
        yield Noisy(Machine(lambda _, n: float(n)), {TOKENS: 4096, **settings})

    limits = Limits(ttft=0.5)
    found = search(start, [Split({})], limits=limits, most_starts=1)
    assert [trial.rung.in_flight for trial in found.trials if trial.broken] == [8, 6, 5, 4]
    assert best(found)[0] == 2


def test_nothing_is_chosen_if_every_measurement_breaks_a_limit():
    found = search(Machine(peak_at(8)).start, [Split({})], limits=Limits(ttft=0.001))
    assert found.best() is None
    assert found.trials[0].broken == "TTFT p99 0.01 s is above 0.001 s"


def test_a_limit_on_what_was_not_measured_is_broken():
    found = search(Machine(peak_at(8)).start, [Split({})], limits=Limits(tpot=1.0))
    assert found.trials[0].broken == "TPOT was not measured"


def test_an_engine_that_does_not_start_costs_only_its_split():
    machine = Machine(peak_at(32))

    @contextmanager
    def start(settings: Mapping[str, int]) -> Iterator[Started]:
        if settings.get("tensor_parallel_size") == 1:
            raise EngineError("The engine did not start: out of memory.")
        with machine.start(settings) as engine:
            yield engine

    splits = [Split({"tensor_parallel_size": 1}), Split({"tensor_parallel_size": 2})]
    found = search(start, splits)
    assert best(found)[1]["tensor_parallel_size"] == 2
    assert "out of memory" in found.remarks[0]


@pytest.mark.parametrize("top", [8, 16, 64, 200])
def test_the_choice_is_within_five_percent_of_the_best(top: int):
    surface = peak_at(top)
    found = search(Machine(surface).start, [Split({})], most_starts=1)
    at_top = max(surface({}, n) for n in (8, 16, 32, 64, 128, 256))
    assert surface({}, best(found)[0]) >= 0.95 * at_top
