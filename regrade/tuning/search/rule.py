"""The rule of `regrade tune`, a sweep whose next point follows from the measured ones.

An engine start takes minutes, a measurement inside one takes seconds. So requests in flight are varied inside a start; other
settings, which need a start each, are tried in the order of their usual effect: the split over GPUs, then the tokens of a step.
Throughput is not monotonic in the requests in flight (https://github.com/vllm-project/vllm/issues/33168), so the rule looks
past the top.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from statistics import fmean

from regrade.jobs.generate import Progress
from regrade.settings.errors import EngineError, SettingsError
from regrade.settings.project_folder import VERSION
from regrade.tuning.search.job import TuneJob
from regrade.tuning.search.records import TrialRecord, Tuning, TuningKey, settings_text

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
TOKENS = "max_num_batched_tokens"


class Search(ABC):
    """Measurements so far, and the settings that follow from them. A subclass starts engines and measures them."""

    def __init__(self, job: TuneJob) -> None:
        self.job = job
        self.tokens_by_hand = job.engine.max_num_batched_tokens is not None
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

    def _starts(
        self, splits: Sequence[Mapping[str, int]]
    ) -> Iterator[tuple[Mapping[str, int], int]]:
        """Yield the settings of each start and the requests in flight of its first measurement, by what was measured before."""
        for settings in splits:
            # The tokens of a step need two starts to be tried in both directions.
            kept = 0 if self._why_not_tokens() else 2
            if self.starts >= max(1, self.job.starts - kept):
                break
            yield settings, 1 if self.job.limits.given else FIRST
        if reason := self._why_not_tokens():
            self.remarks.append(f"{TOKENS} not varied: {reason}")
        else:
            yield from self._other_tokens()

    def _why_not_tokens(self) -> str:
        """Return why the tokens of a step stay as they are; "" if prompts had at least as many tokens as answers."""
        if self.tokens_by_hand:
            return "set by hand"
        more_answers = sum(p.completion_tokens - p.prompt_tokens for p in self.measured) > 0
        return "answers are most of the tokens" if more_answers else ""

    def _other_tokens(self) -> Iterator[tuple[Mapping[str, int], int]]:
        """Double the tokens of a step while that helps; if it does not help at all, halve them."""
        chosen, _ = best(self.trials)
        if chosen is None or TOKENS not in chosen.settings:
            return
        first, factor = chosen.settings[TOKENS], 2.0
        while self.starts < self.job.starts and (tokens := int(chosen.settings[TOKENS] * factor)):
            yield {**chosen.settings, TOKENS: tokens}, chosen.in_flight
            chosen = best(self.trials)[0] or chosen
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

    def tuning(self, key: TuningKey, benchmark: str) -> Tuning:
        """Return the fastest settings; see `best`.

        Raises:
            EngineError, SettingsError: If an engine did not start, or no settings keep the limits.
        """
        chosen, noise = best(self.trials)
        if chosen is None and self.error is not None:
            raise self.error
        if chosen is None:
            closest = min((t for t in self.trials if t.broken), key=lambda trial: trial.in_flight)
            raise SettingsError(
                f"No settings keep the limits on latency: with {closest.in_flight} in flight, {closest.broken}. Raise the limits, or leave them out."
            )
        # The tokens of a step are kept where they differ from the default.
        default = self.trials[0].settings.get(TOKENS) if not self.tokens_by_hand else None
        settings = {k: v for k, v in chosen.settings.items() if k != TOKENS or v != default}
        # vLLM divides the requests between the copies of a model.
        per_copy = math.ceil(chosen.in_flight / settings.get("data_parallel_size", 1))
        return Tuning(
            key=key,
            benchmark=benchmark,
            measured_at=datetime.now(UTC),
            regrade_version=VERSION,
            settings={"max_num_seqs": per_copy, **settings},
            in_flight=chosen.in_flight,
            rate=chosen.rate,
            spread=noise,
            starts=self.starts,
            trials=tuple(self.trials),
            remarks=tuple(self.remarks),
        )


def best(trials: Sequence[TrialRecord]) -> tuple[TrialRecord | None, float]:
    """Return the chosen settings, with their mean rate, and the noise.

    Of settings that are as fast as the fastest within the noise, the first tried and smallest are chosen.
    """
    found, noise = means(trials)
    least = max((trial.rate for trial in found), default=0.0) * (1 - noise)
    equal = (trial for trial in found if trial.rate >= least)
    return min(equal, key=lambda trial: (trial.start, trial.in_flight), default=None), noise


def means(trials: Sequence[TrialRecord]) -> tuple[list[TrialRecord], float]:
    """Return the settings that always kept the limits, with their mean rates, and the noise.

    The noise is the largest relative distance between two measurements of the same settings.
    """
    groups: dict[object, list[TrialRecord]] = {}
    for trial in trials:
        groups.setdefault(trial.point, []).append(trial)
    within = [alike for alike in groups.values() if not any(trial.broken for trial in alike)]
    several = [[trial.rate for trial in alike] for alike in within if len(alike) > 1]
    # Rates that are all 0 do not differ.
    noise = max(((max(r) - min(r)) / (fmean(r) or 1.0) for r in several), default=0.0)
    rates = ((alike[0], fmean(trial.rate for trial in alike)) for alike in within)
    return [first.model_copy(update={"rate": rate}) for first, rate in rates], noise
