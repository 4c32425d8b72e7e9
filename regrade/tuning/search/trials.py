"""Measurements of a search, and the settings that follow from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from regrade.settings.errors import EngineError, SettingsError
from regrade.stats.speed import Speed


@dataclass(frozen=True, slots=True)
class Limits:
    """Largest accepted latencies, as 99th percentiles in seconds."""

    ttft: float | None = None
    tpot: float | None = None
    e2el: float | None = None

    def __bool__(self) -> bool:
        return any(limit is not None for limit in (self.ttft, self.tpot, self.e2el))

    def broken_by(self, speed: Speed | None) -> str | None:
        """Return the first latency that is too long, in words; None if all are within the limits or not limited."""
        for name in ("ttft", "tpot", "e2el"):
            limit = getattr(self, name)
            if limit is None:
                continue
            spread = None if speed is None else getattr(speed, name)
            if spread is None:
                return f"{name.upper()} was not measured"
            if spread.p99 > limit:
                return f"{name.upper()} p99 {spread.p99:.3g} s is above {limit:g} s"
        return None


@dataclass(frozen=True, slots=True)
class Rung:
    """A measurement with a number of requests in flight."""

    in_flight: int
    rate: float
    """Work per second: tokens of answers, or answers if nothing is generated."""
    requests: int
    seconds: float
    speed: Speed | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """A rung with the settings of its engine."""

    start: int
    """Number of the engine start, from 0."""
    settings: Mapping[str, int]
    rung: Rung
    broken: str | None = None
    """Limit that was exceeded."""


@dataclass
class Search:
    """Measurements so far, and the decision that follows from them."""

    limits: Limits = field(default_factory=Limits)
    trials: list[Trial] = field(default_factory=list)
    starts: int = 0
    remarks: list[str] = field(default_factory=list)
    """Decisions in words, in their order."""
    errors: list[EngineError | SettingsError] = field(default_factory=list)
    """Errors of engines that did not start, or ended."""

    def rates(self) -> dict[tuple[tuple[tuple[str, int], ...], int], list[float]]:
        """Return the rates by settings and requests in flight, without those that exceeded a limit in any measurement."""
        rates: dict[tuple[tuple[tuple[str, int], ...], int], list[float]] = {}
        broken = {_place(trial) for trial in self.trials if trial.broken is not None}
        for trial in self.trials:
            if _place(trial) not in broken:
                rates.setdefault(_place(trial), []).append(trial.rung.rate)
        return rates

    @property
    def spread(self) -> float:
        """Noise: largest relative distance between two measurements of the same settings; 0 if none was repeated."""
        several = [rates for rates in self.rates().values() if len(rates) > 1]
        return max(((max(r) - min(r)) / _mean(r) for r in several), default=0.0)

    def best(self) -> "Found | None":
        """Return the fastest settings; of those that are as fast within the noise, the first tried and smallest."""
        rates = {key: _mean(values) for key, values in self.rates().items()}
        if not rates:
            return None
        top = max(rates.values())
        order = {_key(trial.settings): trial.start for trial in reversed(self.trials)}
        equal = [key for key, rate in rates.items() if rate >= top * (1 - self.spread)]
        settings, in_flight = min(equal, key=lambda key: (order[key[0]], key[1]))
        return Found(dict(settings), in_flight, rates[settings, in_flight], top)


@dataclass(frozen=True, slots=True)
class Found:
    """The settings that a search chose."""

    settings: dict[str, int]
    in_flight: int
    rate: float
    top_rate: float
    """Best rate of all; a distance within the noise is no difference."""


def _place(trial: Trial) -> tuple[tuple[tuple[str, int], ...], int]:
    return _key(trial.settings), trial.rung.in_flight


def _key(settings: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(settings.items()))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
