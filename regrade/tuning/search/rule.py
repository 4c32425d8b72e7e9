"""The rule of `regrade tune`, a sweep whose next point follows from the measured ones.

An engine start takes minutes, a measurement inside one takes seconds. So requests in flight are varied inside a start; other
settings, which need a start each, are tried in the order of their usual effect: the split over GPUs, then the tokens of a step.
Throughput is not monotonic in the requests in flight (https://github.com/vllm-project/vllm/issues/33168), so the rule looks
past the top.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from regrade.jobs.generate import Progress
from regrade.settings.errors import EngineError, SettingsError
from regrade.tuning.search.records import TrialRecord, settings_text

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
"""Requests in flight of the first measurement if latency is not limited."""
MOST = 1024
"""Most requests in flight if nothing else limits them."""
TOKENS = "max_num_batched_tokens"
Start = tuple[Mapping[str, int], int]
"""Settings of an engine start, and the requests in flight of its first measurement."""


class Search(ABC):
    """Measurements so far, and the settings that follow from them. A subclass starts engines and measures them."""

    def __init__(self, first: int, most_starts: int, *, vary_tokens: bool) -> None:
        """Begin.

        Args:
            first: Requests in flight of the first measurement.
            most_starts: Most engine starts.
            vary_tokens: False: the tokens of a step were set by hand.
        """
        self.first, self.most_starts, self.vary_tokens = first, most_starts, vary_tokens
        self.trials: list[TrialRecord] = []
        self.measured: list[Progress] = []
        """Counts of the measurements."""
        self.starts = 0
        self.remarks: list[str] = []
        """Decisions in words, in their order."""
        self.error: EngineError | SettingsError | None = None
        """The error of the last engine that did not start, or that ended."""

    @abstractmethod
    def start(self, settings: Mapping[str, int]) -> int:
        """Start an engine with some settings, and return the most requests in flight that can be measured.

        Raises:
            EngineError, SettingsError: If it cannot start.
        """

    @abstractmethod
    def measure(self, in_flight: int) -> TrialRecord:
        """Answer some questions with the started engine, at most so many at a time.

        Raises:
            EngineError, SettingsError: If the engine ends, or answers nothing.
        """

    def run(self, splits: Sequence[Mapping[str, int]]) -> None:
        """Measure until the starts are used up or nothing is left to try.

        An engine that does not start, or ends, costs only what it has not measured.

        Args:
            splits: Engine settings that divide the model over GPUs, the most promising first.
        """
        for settings, first in self._starts(splits):
            self.starts += 1
            try:
                for in_flight in self._ladder(first, self.start(settings)):
                    self.trials.append(self.measure(in_flight))
            except (EngineError, SettingsError) as error:
                self.error = error
                self.remarks.append(f"{settings_text(settings, 'these settings')}: {error}")

    def _starts(self, splits: Sequence[Mapping[str, int]]) -> Iterator[Start]:
        """Yield each start, by what was measured before it."""
        for settings in splits:
            # The tokens of a step need two starts to be tried in both directions.
            kept = 0 if self._why_not_tokens() else 2
            if self.starts >= max(1, self.most_starts - kept):
                break
            yield settings, self.first
        if reason := self._why_not_tokens():
            self.remarks.append(f"{TOKENS} not varied: {reason}")
        else:
            yield from self._other_tokens()

    def _why_not_tokens(self) -> str:
        """Return why the tokens of a step stay as they are; "" if prompts had at least as many tokens as answers."""
        more_answers = sum(p.completion_tokens - p.prompt_tokens for p in self.measured) > 0
        reason = "answers are most of the tokens" if more_answers else ""
        return reason if self.vary_tokens else "set by hand"

    def _other_tokens(self) -> Iterator[Start]:
        """Double the tokens of a step while that helps; if it does not help at all, halve them."""
        chosen = self.best()
        if chosen is None or TOKENS not in chosen.settings:
            return
        first, factor = chosen.settings[TOKENS], 2.0
        while self.starts < self.most_starts and (tokens := int(chosen.settings[TOKENS] * factor)):
            yield {**chosen.settings, TOKENS: tokens}, chosen.in_flight
            chosen = self.best() or chosen
            if chosen.settings[TOKENS] != tokens:
                self.remarks.append(f"{TOKENS}={tokens:,}: no gain beyond the noise")
                if factor < 1 or chosen.settings[TOKENS] != first:
                    return
                factor = 0.5

    def _ladder(self, in_flight: int, most: int) -> Iterator[int]:
        """Yield the requests in flight of each measurement inside a start, by those before it.

        They are doubled until two steps bring no gain or one breaks a limit. Between the last two numbers at a limit, bisection
        finds the most requests within it. Then the best is measured again.
        """
        in_flight = min(in_flight, most)
        rates: dict[int, float] = {}
        beyond: int | None = None
        without_gain = 0
        while in_flight not in rates and without_gain < PAST_TOP:
            yield in_flight
            trial = self.trials[-1]
            if trial.broken is None:
                gained = trial.rate >= GAIN * max(rates.values(), default=0.0)
                without_gain = 0 if gained else without_gain + 1
                rates[in_flight] = trial.rate
            elif rates:
                beyond = in_flight
            else:
                return
            within = max(rates)
            if beyond is None:
                in_flight = min(2 * within, most)
            else:  # `within` was measured, so that it ends the loop
                in_flight = (within + beyond) // 2 if beyond > PRECISION * within else within
        top = max(rates, key=lambda n: rates[n])
        smaller = [n for n, rate in rates.items() if n < top and rate >= CLOSE * rates[top]]
        yield from (top, *smaller[:1]) * REPEATS

    def found(self) -> TrialRecord:
        """Return the fastest settings; see `best`.

        Raises:
            EngineError, SettingsError: If an engine did not start, or no settings keep the limits.
        """
        if (chosen := self.best()) is not None:
            return chosen
        if self.error is not None:
            raise self.error
        closest = min((t for t in self.trials if t.broken), key=lambda trial: trial.in_flight)
        raise SettingsError(
            f"No settings keep the limits on latency: with {closest.in_flight} in flight, {closest.broken}. Raise the limits, or leave them out."
        )

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
