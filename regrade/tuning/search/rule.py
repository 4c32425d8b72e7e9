"""The rule of `regrade tune`: which settings are measured next, and which of them are chosen.

An engine start takes minutes, a measurement inside one takes seconds. So requests in flight are varied inside a start; other
settings, which need a start each, are tried in the order of their usual effect: the split over GPUs, then the tokens of a step.
Throughput is not monotonic in the requests in flight (https://github.com/vllm-project/vllm/issues/33168), so the rule looks
past the top.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean

from regrade.engines.base import BaseEngineSettings, parallel_by_hand
from regrade.settings.errors import EngineError, SettingsError
from regrade.tuning.plan.plan import MemoryPlan
from regrade.tuning.search.job import LatencyLimits
from regrade.tuning.search.records import TrialRecord

GAIN = 1.04
"""Least ratio of two rates that counts as a gain while the requests in flight are doubled."""
CLOSE = 0.95
"""Share of the best rate from which on a smaller setting is measured again, beside the best."""
PAST_TOP = 2
"""Measurements without a gain after which no more requests in flight are tried."""
REPEATS = 2
"""Further measurements of the best and of the smaller setting, taking turns."""
PRECISION = 1.05
"""Ratio of two neighbours at which the bisection of limits ends."""
FIRST = 8
"""Requests in flight of the first measurement; with limits on latency, 1."""
MOST = 1024
"""Most requests in flight if nothing else limits them."""
SHORTER = 4
"""Factor by which more requests are expected to fit than requests of the greatest length: most are shorter."""
TOKENS = "max_num_batched_tokens"

Split = tuple[Mapping[str, int], int]
"""Engine settings that divide a model over the GPUs, and the requests whose KV cache fits at the same time."""


@dataclass(frozen=True, slots=True)
class StartedEngine:
    """An engine that runs with some settings."""

    most_in_flight: int
    """Most requests that it computes at a time, and for which there are questions."""
    measure: Callable[[int], TrialRecord]
    """Answers some questions, at most so many at a time. The settings of the trial are those in effect."""


Start = Callable[[int, Mapping[str, int]], AbstractContextManager[StartedEngine]]
"""Starts engine number n (from 0) with some settings; raises `EngineError` or `SettingsError` if it cannot."""


def splits_to_try(engine: BaseEngineSettings, planned: MemoryPlan | None = None) -> list[Split]:
    """Return the splits that fit: the plan's choice first, then those whose KV cache holds most.

    Args:
        engine: Settings; sizes and tokens of a step that were set by hand are kept.
        planned: Plan for this machine and these settings. None: only the split that the settings say.
    """
    tokens = getattr(engine, TOKENS, None)
    kept = {} if tokens is None else {TOKENS: tokens}
    choice = None if planned is None else planned.choice
    if planned is None or choice is None:
        return [({**parallel_by_hand(engine), **kept}, MOST)]
    fitting = sorted(
        (split for split in planned.splits if split.fits),
        key=lambda split: (
            split.settings != choice.settings,
            split.pipeline,
            -split.total_concurrency,
        ),
    )
    return [
        (
            {**split.settings, **kept},
            MOST if split.concurrency is None else max(1, int(SHORTER * split.total_concurrency)),
        )
        for split in fitting
    ]


@dataclass
class Search:
    """Measurements so far, and the settings that follow from them."""

    start: Start
    limits: LatencyLimits = field(default_factory=LatencyLimits)
    most_starts: int = 4
    trials: list[TrialRecord] = field(default_factory=list)
    starts: int = 0
    remarks: list[str] = field(default_factory=list)
    """Decisions in words, in their order."""
    errors: list[EngineError | SettingsError] = field(default_factory=list)
    """Errors of engines that did not start, or ended."""

    def run(
        self, splits: Sequence[Split], prompts_matter: Callable[[], bool] = lambda: True
    ) -> None:
        """Measure until the starts are used up or nothing is left to try.

        Args:
            splits: Splits of the model over GPUs, the most promising first.
            prompts_matter: Asked after the first start: True if prompts are much of the work, so that it is worth a start
                to vary the tokens of a step.
        """
        by_hand = any(TOKENS in settings for settings, _ in splits)
        for settings, most in splits:
            # The tokens of a step need two starts to be tried in both directions.
            kept = 2 if self.starts and not by_hand and prompts_matter() else 0
            if self.starts >= max(1, self.most_starts - kept):
                break
            chosen = self.best()
            if chosen is not None and most < chosen.in_flight:
                self.remarks.append(
                    f"{_text(settings)} not tried: its KV cache holds {most:,} requests, and {chosen.in_flight:,} in flight "
                    "are fastest so far"
                )
            else:
                self._try(settings, partial(self._climb, most))
        if not self.trials:
            return
        if by_hand:
            self.remarks.append(f"{TOKENS} not varied: set by hand")
        elif prompts_matter():
            self._vary_tokens()
        else:
            self.remarks.append(f"{TOKENS} not varied: answers are most of the tokens")

    @property
    def spread(self) -> float:
        """Noise: largest relative distance between two measurements of the same settings; 0 if none was repeated."""
        several = [[t.rate for t in alike] for alike in self._within_limits() if len(alike) > 1]
        return max(((max(rates) - min(rates)) / fmean(rates) for rates in several), default=0.0)

    def best(self) -> TrialRecord | None:
        """Return the fastest settings, with their mean rate; of those that are as fast within the noise, the first tried and smallest."""
        means = [
            alike[0].model_copy(update={"rate": fmean(trial.rate for trial in alike)})
            for alike in self._within_limits()
        ]
        least = max((trial.rate for trial in means), default=0.0) * (1 - self.spread)
        equal = (trial for trial in means if trial.rate >= least)
        return min(equal, key=lambda trial: (trial.start, trial.in_flight), default=None)

    def _within_limits(self) -> list[list[TrialRecord]]:
        """Return the measurements of each setting, without settings that exceeded a limit in any measurement."""
        groups: dict[tuple[object, ...], list[TrialRecord]] = {}
        for trial in self.trials:
            place = (trial.in_flight, *sorted(trial.settings.items()))
            groups.setdefault(place, []).append(trial)
        return [alike for alike in groups.values() if not any(trial.broken for trial in alike)]

    def _try(self, settings: Mapping[str, int], use: Callable[[StartedEngine], None]) -> None:
        """Start an engine and measure; one that does not start, or ends, costs only what it has not measured."""
        self.starts += 1
        try:
            with self.start(self.starts - 1, settings) as engine:
                use(engine)
        except (EngineError, SettingsError) as error:
            self.errors.append(error)
            self.remarks.append(f"{_text(settings)}: {error}")

    def _measure(self, engine: StartedEngine, in_flight: int) -> TrialRecord:
        trial = engine.measure(in_flight)
        trial = trial.model_copy(update={"broken": self.limits.broken_by(trial.speed)})
        self.trials.append(trial)
        return trial

    def _climb(self, most: int, engine: StartedEngine) -> None:
        """Double the requests in flight until two steps bring no gain or one breaks a limit, then measure the best again.

        Between the last two numbers at a limit, bisection finds the most requests within it.
        """
        most = min(most, engine.most_in_flight)
        rates: dict[int, float] = {}
        in_flight, beyond, without_gain = min(1 if self.limits.given else FIRST, most), 0, 0
        while without_gain < PAST_TOP and max(rates, default=0) < most:
            trial = self._measure(engine, in_flight)
            if trial.broken is not None:
                beyond = in_flight
                break
            gained = trial.rate >= GAIN * max(rates.values(), default=0.0)
            without_gain = 0 if gained else without_gain + 1
            rates[in_flight] = trial.rate
            in_flight = min(2 * in_flight, most)
        while rates and beyond > max(max(rates) + 1, PRECISION * max(rates)):
            in_flight = (max(rates) + beyond) // 2
            trial = self._measure(engine, in_flight)
            if trial.broken is None:
                rates[in_flight] = trial.rate
            else:
                beyond = in_flight
        if not rates:
            return
        top = max(rates, key=lambda n: rates[n])
        smaller = [n for n, rate in rates.items() if n < top and rate >= CLOSE * rates[top]]
        for in_flight in (top, *smaller[:1]) * REPEATS:
            self._measure(engine, in_flight)

    def _vary_tokens(self) -> None:
        """Double the tokens of a step while that helps, or else halve them; each try is a start."""
        chosen = self.best()
        if chosen is None or TOKENS not in chosen.settings:
            return
        first = chosen.settings[TOKENS]
        for factor in (2.0, 0.5):
            tokens = int(first * factor)
            while self.starts < self.most_starts and tokens >= 1:
                around = partial(self._measure_around, chosen.in_flight)
                self._try({**chosen.settings, TOKENS: tokens}, around)
                chosen = self.best() or chosen
                if chosen.settings[TOKENS] != tokens:
                    self.remarks.append(f"{TOKENS}={tokens:,}: no gain beyond the noise")
                    break
                tokens = int(tokens * factor)
            if chosen.settings[TOKENS] != first:
                return

    def _measure_around(self, in_flight: int, engine: StartedEngine) -> None:
        """Measure after another setting changed: the best number in flight twice, and between them its double."""
        is_room = not self.limits.given and 2 * in_flight <= engine.most_in_flight
        double = (2 * in_flight,) if is_room else ()
        for number in (in_flight, *double, in_flight):
            self._measure(engine, number)


def _text(settings: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items()) or "these settings"
