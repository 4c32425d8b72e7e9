"""Search for the fastest settings in few engine starts: pure decisions, fed with measurements.

An engine start takes minutes, a measurement inside one takes seconds. So requests in flight are searched inside a start; other
settings, which need a start each, are tried in the order of their usual effect: the split over GPUs, then the tokens of a step.
Throughput is not monotonic in the requests in flight (https://github.com/vllm-project/vllm/issues/33168), so the search looks
past the top.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from regrade.settings.errors import EngineError, SettingsError
from regrade.tuning.search.trials import Limits, Rung, Search, Trial

GAIN = 1.04
"""Least ratio of two rates that counts as a gain while the search climbs."""
CLOSE = 0.95
"""Share of the best rate from which on a smaller setting is measured again, beside the best."""
PAST_TOP = 2
"""Measurements without a gain after which the search inside a start ends."""
REPEATS = 2
"""Further measurements of the best and of the smaller setting, taking turns."""
PRECISION = 1.05
"""Ratio of two neighbours at which the bisection of limits ends."""
FIRST = 8
"""Requests in flight of the first measurement; with limits on latency, 1."""
MOST = 1024
"""Most requests in flight if neither the plan nor the caller knows a limit."""
TOKENS = "max_num_batched_tokens"


@dataclass(frozen=True, slots=True)
class Split:
    """A way to divide a model over the GPUs, and what fits: the result of planning."""

    settings: Mapping[str, int]
    """Engine settings, such as `tensor_parallel_size`; with `max_num_batched_tokens`, the search keeps that value."""
    most_in_flight: int | None = None
    """Requests of this workload whose KV cache fits at the same time; None if it is not known."""


class StartedEngine(Protocol):
    """An engine that runs with some settings, and measures."""

    @property
    def batched_tokens(self) -> int | None:
        """`max_num_batched_tokens` in effect; None if it is not known."""

    @property
    def most_in_flight(self) -> int | None:
        """Most requests that it computes at a time; None if it is not known."""

    def measure(self, in_flight: int) -> Rung:
        """Answer some requests, at most `in_flight` at a time."""


Start = Callable[[Mapping[str, int]], AbstractContextManager[StartedEngine]]
"""Starts an engine with these settings; raises `EngineError` or `SettingsError` if it cannot."""


def search(
    start: Start,
    splits: Sequence[Split],
    *,
    limits: Limits | None = None,
    most_starts: int = 4,
    most_in_flight: int | None = None,
    prompts_matter: Callable[[], bool] = lambda: True,
) -> Search:
    """Measure until the starts are used up or nothing is left to try.

    Args:
        start: Starts an engine.
        splits: Splits of the model over GPUs, the most promising first.
        limits: Limits on latency.
        most_starts: Most engine starts.
        most_in_flight: Most requests in flight to try. None: what fits.
        prompts_matter: Asked after the first start: True if prompts are much of the work, so that it is worth a start to
            vary the tokens of a step.
    """
    found = Search(limits or Limits())
    by_hand = any(TOKENS in split.settings for split in splits)

    def varies_tokens() -> bool:
        return not by_hand and prompts_matter()

    for split in splits:
        # The tokens of a step need two starts to be tried in both directions.
        if found.starts >= max(1, most_starts - 2 * (found.starts > 0 and varies_tokens())):
            break
        chosen = found.best()
        if (
            chosen is not None
            and split.most_in_flight is not None
            and split.most_in_flight < chosen.in_flight
        ):
            found.remarks.append(
                f"{_text(split.settings)} not tried: its KV cache holds {split.most_in_flight:,} requests, and "
                f"{chosen.in_flight:,} in flight are fastest so far"
            )
            continue

        def explore(engine: StartedEngine, split: Split = split) -> None:
            most = _least(split.most_in_flight, most_in_flight, engine.most_in_flight, MOST)
            (_bisect if found.limits else _climb)(engine, split.settings, most, found)

        _try(start, split.settings, found, explore)
    if not found.trials:
        return found
    if varies_tokens():
        _vary_tokens(start, found, most_starts, most_in_flight)
    elif by_hand:
        found.remarks.append(f"{TOKENS} not varied: set by hand")
    else:
        found.remarks.append(f"{TOKENS} not varied: answers are most of the tokens")
    return found


def _try(
    start: Start,
    settings: Mapping[str, int],
    found: Search,
    use: Callable[[StartedEngine], None],
) -> None:
    """Start an engine and measure; one that does not start, or ends, costs only what it has not measured."""
    found.starts += 1
    try:
        with start(settings) as engine:
            use(engine)
    except (EngineError, SettingsError) as error:
        found.errors.append(error)
        found.remarks.append(f"{_text(settings)}: {error}")


def _measure(
    engine: StartedEngine, settings: Mapping[str, int], in_flight: int, found: Search
) -> Trial:
    rung = engine.measure(in_flight)
    tokens = engine.batched_tokens
    effective = dict(settings) if tokens is None else {**settings, TOKENS: tokens}
    trial = Trial(found.starts - 1, effective, rung, found.limits.broken_by(rung.speed))
    found.trials.append(trial)
    return trial


def _climb(engine: StartedEngine, settings: Mapping[str, int], most: int, found: Search) -> None:
    """Double the requests in flight until two steps bring no gain, then measure the best and a smaller one again."""
    rates: dict[int, float] = {}
    best, without_gain = 0.0, 0
    for in_flight in _ladder(min(FIRST, most), most):
        rate = _measure(engine, settings, in_flight, found).rung.rate
        rates[in_flight] = rate
        without_gain = 0 if rate >= GAIN * best else without_gain + 1
        best = max(best, rate)
        if without_gain == PAST_TOP:
            break
    top = max(rates, key=lambda in_flight: rates[in_flight])
    smaller = [n for n, rate in rates.items() if n < top and rate >= CLOSE * best]
    for _ in range(REPEATS):
        for in_flight in (top, *smaller[:1]):
            _measure(engine, settings, in_flight, found)


def _ladder(first: int, most: int) -> Iterator[int]:
    """Yield doubled numbers from `first` on, and `most` as the last."""
    in_flight = first
    while in_flight < most:
        yield in_flight
        in_flight *= 2
    yield most


def _bisect(engine: StartedEngine, settings: Mapping[str, int], most: int, found: Search) -> None:
    """Find the most requests in flight within the limits: doubling, then bisection between the last two."""
    within, beyond = 0, 0
    for in_flight in _ladder(1, most):
        if _measure(engine, settings, in_flight, found).broken is not None:
            beyond = in_flight
            break
        within = in_flight
    while within and beyond and beyond > within + 1 and beyond / within > PRECISION:
        middle = (within + beyond) // 2
        if _measure(engine, settings, middle, found).broken is None:
            within = middle
        else:
            beyond = middle
    if within:  # noise decides near a limit
        _measure(engine, settings, within, found)


def _vary_tokens(start: Start, found: Search, most_starts: int, most_in_flight: int | None) -> None:
    """Double or halve the tokens of a step while that helps; each try is a start."""
    chosen = found.best()
    if chosen is None or TOKENS not in chosen.settings:
        return
    first = chosen.settings[TOKENS]
    for factor in (2.0, 0.5):
        tokens, gained = int(first * factor), False
        while found.starts < most_starts and tokens >= 1:
            before = found.best()
            if before is None:
                return
            settings = {**before.settings, TOKENS: tokens}

            def compare(
                engine: StartedEngine,
                settings: Mapping[str, int] = settings,
                best: int = before.in_flight,
            ) -> None:
                most = _least(most_in_flight, engine.most_in_flight, MOST)
                for in_flight in _around(best, most, found):
                    _measure(engine, settings, in_flight, found)

            _try(start, settings, found, compare)
            after = found.best()
            if after is None or after.settings.get(TOKENS) != tokens:
                found.remarks.append(f"{TOKENS}={tokens:,}: no gain beyond the noise")
                break
            gained = True
            tokens = int(tokens * factor)
        if gained:
            return


def _around(in_flight: int, most: int, found: Search) -> tuple[int, ...]:
    """Return the numbers to measure after another setting changed: the best one, twice, and between them its double."""
    if found.limits or 2 * in_flight > most:
        return (in_flight, in_flight)
    return (in_flight, 2 * in_flight, in_flight)


def _least(*limits: int | None) -> int:
    return max(1, min(limit for limit in limits if limit is not None))


def _text(settings: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items()) or "these settings"
