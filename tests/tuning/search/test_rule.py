"""The rule for the fastest settings, on surfaces that are known."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from regrade.jobs.generate import Progress
from regrade.jobs.job import make_job
from regrade.settings.errors import EngineError, SettingsError
from regrade.tuning.search import rule
from regrade.tuning.search.job import TuneJob
from regrade.tuning.search.records import TrialRecord, Tuning
from regrade.tuning.search.result import trial_rows, why
from regrade.tuning.search.rule import TOKENS, Search
from tests.tuning.search.test_records import KEY

Surface = Callable[[Mapping[str, int], int], float]


class Machine(Search):
    """A search on engines whose rate is a function of settings and requests in flight."""

    def __init__(
        self,
        surface: Surface,
        *,
        most: int = 256,
        noise: Iterator[float] | None = None,
        breaks: Callable[[int], bool] | None = None,
        most_starts: int = 4,
        vary_tokens: bool = True,
        prompts: bool = True,
    ) -> None:
        job = {
            "model": "org/tiny",
            "benchmarks": ["gsm8k"],
            "starts": most_starts,
            "limits": {"ttft_p99": 1} if breaks else {},
            "engine": {} if vary_tokens else {TOKENS: 4096},
        }
        super().__init__(make_job(TuneJob, job))
        self.surface, self.most, self.noise = surface, most, noise
        self.measured = [Progress(9, prompt_tokens=9 if prompts else 0, completion_tokens=9)]
        self.breaks = breaks or (lambda _: False)
        self.fails: Callable[[Mapping[str, int]], bool] = lambda _: False
        self.started: list[Mapping[str, int]] = []

    def start(self, settings: Mapping[str, int]) -> int:
        self.started.append(settings)
        if self.fails(settings):
            raise EngineError("The engine did not start: out of memory.")
        return self.most

    def measure(self, in_flight: int) -> TrialRecord:
        settings = {TOKENS: 4096, **self.started[-1]}
        noise = 1.0 if self.noise is None else next(self.noise)
        return TrialRecord(
            start=self.starts - 1,
            settings=settings,
            in_flight=in_flight,
            rate=self.surface(settings, in_flight) * noise,
            requests=32,
            seconds=1.0,
            broken="TTFT p99 2 s is above 1 s" if self.breaks(in_flight) else None,
        )

    @property
    def numbers(self) -> list[int]:
        return [trial.in_flight for trial in self.trials]

    def tried(self, splits: Sequence[Mapping[str, int]] = ({},)) -> "Machine":
        """The search when it has ended."""
        self.run(splits)
        return self


def peak_at(top: int) -> Surface:
    """Grows with the requests in flight up to `top`, then falls."""
    return lambda _, n: n / top if n <= top else (top / n) ** 0.3


def best(found: Search) -> tuple[int, dict[str, int]]:
    chosen, _ = rule.best(found.trials)
    assert chosen is not None
    return chosen.in_flight, chosen.settings


def splits(*sizes: int) -> list[dict[str, int]]:
    return [{"tensor_parallel_size": size} for size in sizes]


def test_the_top_is_found_although_throughput_falls_behind_it():
    machine = Machine(peak_at(32)).tried()
    assert best(machine)[0] == 32
    assert max(machine.numbers) == 128  # two steps past the top


def test_a_dip_does_not_end_the_climb():
    rates = {8: 1.0, 16: 2.0, 32: 1.9, 64: 4.0, 128: 8.0, 256: 16.0}
    assert best(Machine(lambda _, n: rates[n], most_starts=1).tried())[0] == 256


def test_of_settings_that_differ_less_than_the_noise_the_smaller_wins():
    noise = iter([1.0, 1.0, 1.0, 1.0, 1.02, 0.98, 0.99, 1.01])
    rates = {8: 0.5, 16: 0.985, 32: 1.0, 64: 0.9}
    found = Machine(lambda _, n: rates[n], most=64, noise=noise, most_starts=1).tried()
    assert rule.best(found.trials)[1] > 0.015
    assert best(found)[0] == 16
    said = why(found.tuning(KEY, "gsm8k"))
    assert said == "the smallest within the noise (3.0 %) of the fastest, 32 in flight with 1.0"


def test_without_noise_the_faster_wins():
    rates = {8: 0.5, 16: 0.985, 32: 1.0, 64: 0.9}
    assert best(Machine(lambda _, n: rates[n], most=64, most_starts=1).tried())[0] == 32


def test_without_any_rate_the_smallest_is_chosen():
    found = Machine(lambda *_: 0.0, most_starts=1).tried()
    assert (best(found)[0], rule.best(found.trials)[1]) == (8, 0.0)


def test_tokens_of_a_step_are_doubled_while_that_helps():
    found = Machine(lambda settings, n: min(n, 32) * min(settings[TOKENS], 16384)).tried()
    assert [entry.get(TOKENS) for entry in found.started] == [None, 8192, 16384, 32768]
    assert best(found) == (32, {TOKENS: 16384})
    assert found.starts == 4


def test_tokens_of_a_step_are_halved_if_doubling_does_not_help():
    found = Machine(lambda settings, n: min(n, 32) / settings[TOKENS]).tried()
    assert [entry.get(TOKENS) for entry in found.started] == [None, 8192, 2048, 1024]
    assert best(found)[1] == {TOKENS: 1024}


def test_with_other_tokens_of_a_step_the_climb_goes_on_where_it_was_best():
    found = Machine(lambda settings, n: min(n, settings[TOKENS] // 128), most_starts=2).tried()
    assert [trial.in_flight for trial in found.trials if trial.start == 1][:3] == [32, 64, 128]
    assert best(found) == (64, {TOKENS: 8192})


def test_tokens_of_a_step_stay_if_answers_are_most_of_the_work():
    found = Machine(peak_at(32), prompts=False).tried()
    assert found.starts == 1
    assert "not varied" in found.remarks[-1]


def test_tokens_of_a_step_that_were_set_by_hand_stay_and_leave_all_starts_to_the_splits():
    machine = Machine(lambda settings, n: n * settings[TOKENS], vary_tokens=False)
    found = machine.tried(splits(1, 2, 4, 8))
    assert found.started == splits(1, 2, 4, 8)
    assert found.remarks == [f"{TOKENS} not varied: set by hand"]


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_no_more_starts_are_taken_than_are_allowed(most: int):
    machine = Machine(lambda settings, n: n * settings[TOKENS], most_starts=most)
    assert machine.tried(splits(1, 2, 4, 8)).starts == len(machine.started) == most


def test_the_most_requests_within_a_limit_are_found_by_doubling_and_bisection():
    found = Machine(lambda _, n: float(n), breaks=lambda n: n > 45, most_starts=1).tried()
    assert 43 <= best(found)[0] <= 45
    assert found.numbers[:7] == [1, 2, 4, 8, 16, 32, 64]
    assert len(found.numbers) < 15


def test_a_limit_that_nothing_reaches_does_not_lengthen_the_climb():
    found = Machine(peak_at(8), breaks=lambda _: False, most_starts=1).tried()
    assert best(found)[0] == 8
    assert max(found.numbers) == 32


def test_settings_that_break_a_limit_when_measured_again_are_not_chosen():
    broken = iter([False, False, False, True, True])  # 1, 2, 4, 8, then 6
    machine = Machine(lambda _, n: float(n), breaks=lambda _: next(broken, True), most_starts=1)
    found = machine.tried()
    assert [trial.in_flight for trial in found.trials if trial.broken] == [8, 6, 5, 4, 4]
    assert best(found)[0] == 2


def test_nothing_is_chosen_if_every_measurement_breaks_a_limit():
    found = Machine(peak_at(8), breaks=lambda _: True).tried()
    with pytest.raises(SettingsError, match="with 1 in flight, TTFT p99 2 s is above 1 s"):
        found.tuning(KEY, "sums")


def test_an_engine_that_does_not_start_costs_only_its_split():
    machine = Machine(peak_at(32))
    machine.fails = lambda settings: settings["tensor_parallel_size"] == 1
    assert best(machine.tried(splits(1, 2)))[1]["tensor_parallel_size"] == 2
    assert "out of memory" in machine.remarks[0]


def test_if_no_engine_starts_its_error_is_that_of_the_search():
    machine = Machine(peak_at(32))
    machine.fails = lambda _: True
    with pytest.raises(EngineError, match="out of memory"):
        machine.tried().tuning(KEY, "sums")


@pytest.mark.parametrize("top", [8, 16, 64, 200])
def test_the_choice_is_within_five_percent_of_the_best(top: int):
    surface = peak_at(top)
    found = Machine(surface, most_starts=1).tried()
    at_top = max(surface({}, n) for n in (8, 16, 32, 64, 128, 256))
    assert surface({}, best(found)[0]) >= 0.95 * at_top


def trial(
    in_flight: int, rate: float, *, start: int = 0, broken: str | None = None, **settings: int
) -> TrialRecord:
    return TrialRecord(
        start=start,
        settings=settings,
        in_flight=in_flight,
        rate=rate,
        requests=32,
        seconds=1.0,
        broken=broken,
    )


def tuning(*trials: TrialRecord, vary_tokens: bool = True) -> Tuning:
    """A kept document with some measurements."""
    search = Machine(lambda *_: 0.0, vary_tokens=vary_tokens)
    search.starts, search.trials = 1, list(trials)
    return search.tuning(KEY, "sums")


@pytest.mark.parametrize(("in_flight", "per_copy"), [(64, 16), (66, 17), (1, 1)])
def test_requests_in_flight_are_divided_between_the_copies_of_a_model(
    in_flight: int, per_copy: int
):
    split = {"tensor_parallel_size": 1, "data_parallel_size": 4, TOKENS: 4096}

    kept = tuning(trial(in_flight, 9.0, **split), trial(2 * in_flight, 4.0, **split))

    assert kept.settings["max_num_seqs"] == per_copy
    assert kept.in_flight == in_flight
    assert [row[-1] for row in trial_rows(kept)] == ["chosen", ""]


def test_a_split_with_other_tokens_of_a_step_is_not_marked_as_chosen():
    split = {"tensor_parallel_size": 2, "data_parallel_size": 2}

    kept = tuning(
        trial(64, 9.0, **split, **{TOKENS: 4096}),
        trial(64, 8.0, start=1, **split, **{TOKENS: 8192}),
    )

    assert kept.settings == {"max_num_seqs": 32, **split}
    assert [row[-1] for row in trial_rows(kept)] == ["chosen", ""]


def test_tokens_of_a_step_that_were_set_by_hand_are_kept_with_what_was_found():
    measured = trial(64, 9.0, **{TOKENS: 4096})

    assert tuning(measured, vary_tokens=False).settings[TOKENS] == 4096
    assert TOKENS not in tuning(measured).settings


def test_limits_that_only_the_first_measurement_keeps_are_an_error_that_names_the_broken_one():
    with pytest.raises(SettingsError, match="with 1 in flight, TTFT p99 2 s is above 1 s"):
        tuning(trial(1, 9.0), trial(1, 9.0, broken="TTFT p99 2 s is above 1 s"))
