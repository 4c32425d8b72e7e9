"""Speed of a session: latencies with their percentiles, goodput, and the load of the engine. docs/speed.md defines each value."""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from regrade.settings import GoodputLimits, Seconds, StrictModel
from regrade.stats.estimates import FloatArray, IntArray

PERCENTILES = (25, 50, 75, 99)
LATENCIES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2el": "E2EL", "queue": "queue"}
"""Latencies of a `Speed`, with their names in tables."""
LATENCY_COLUMNS = ("ms", "mean", *(f"p{level}" for level in PERCENTILES))
"""Columns of a table of latencies: `Speed.latencies` has the rows."""
Side = Literal["engine", "client"]
"""Side that measured: inside the engine, or a client that sees chunks of a stream."""
BOTH = ("ttft", "tpot", "e2el")
"""Latencies that engine and client define alike."""
AGREEMENT = 0.05
"""Largest relative difference of two means that counts as agreement."""


class Spread(StrictModel):
    """Mean and percentiles of durations, in seconds, as `numpy.percentile` has them; of more than a million gaps to 0.5 %."""

    mean: Seconds
    p25: Seconds
    p50: Seconds
    p75: Seconds
    p99: Seconds
    n: int = Field(ge=1)
    """Values: requests, or gaps between tokens for `itl`."""

    def milliseconds(self, digits: int) -> Iterator[str]:
        """Yield mean and percentiles in milliseconds."""
        return (f"{1000 * value:,.{digits}f}" for name, value in self if name != "n")


class Goodput(StrictModel):
    """Answers of a session that arrived within limits."""

    limits: dict[str, Annotated[float, Field(gt=0)] | None]
    """Longest latencies in seconds: `ttft`, `tpot` and `e2el`. None, or not there: not limited."""
    answers: int = Field(ge=0)
    """Answers that were compared with the limits; failed ones count as outside."""
    within: int = Field(ge=0)
    unmeasured: int = Field(0, ge=0)
    """Answers that lack a latency that has a limit; they are in neither number."""
    per_second: float | None = Field(None, ge=0)
    """Answers within the limits, per second of the session; None if others shared the engine, because a share of seconds has no rate."""

    @property
    def share(self) -> float | None:
        """Share of the answers within the limits, from 0 to 1; None without answers."""
        return self.within / self.answers if self.answers else None

    @property
    def limits_text(self) -> str:
        """The limits in words."""
        given = ((name, limit) for name, limit in self.limits.items() if limit is not None)
        return ", ".join(f"{name.upper()} {limit:g} s" for name, limit in given)


class OtherSide(StrictModel):
    """Mean latencies of the same requests, in seconds, as measured by the side that did not make the table."""

    by: Side
    requests: int = Field(ge=1)
    ttft: Seconds | None = None
    tpot: Seconds | None = None
    e2el: Seconds | None = None


class Speed(StrictModel):
    """Latencies of a session's requests, and the load of the engine that answered them.

    From the engine itself, after each of its steps, or from its client, in which case `itl` is between chunks.
    """

    measured_by: Side = "engine"
    ttft: Spread | None = None
    """Time to first token: from handing a request to the engine until its first token."""
    tpot: Spread | None = None
    """Time per output token after the first, a mean per request; requests with one token have none."""
    itl: Spread | None = None
    """Inter-token latency: every gap between two tokens of a request, pooled over all requests."""
    e2el: Spread | None = None
    """End-to-end latency: from handing a request to the engine until its last token."""
    queue: Spread | None = None
    """Time from a request's arrival in the scheduler until it is first scheduled."""
    requests: int = Field(0, ge=0)
    """Finished requests. A question whose choices are ranked one by one counts as several requests."""
    preemptions: int = Field(0, ge=0)
    """Requests that lost their KV cache while they ran, and computed it again."""
    running_max: int = Field(0, ge=0)
    running_mean: float | None = None
    """Mean number of requests in a step."""
    waiting_max: int = Field(0, ge=0)
    """Most requests that waited for a place in a step."""
    kv_cache_usage_max: float | None = Field(None, ge=0, le=1)
    """Largest share of the KV cache in use, from 0 to 1."""
    prefix_hit_rate: float | None = Field(None, ge=0, le=1)
    """Share of prompt tokens that were read from the prefix cache."""
    steps: int = Field(0, ge=0)
    goodput: Goodput | None = None
    """None if no limits were given."""
    other_side: OtherSide | None = None
    """None if the other side did not measure, or measured other requests."""

    def differences(self) -> dict[str, tuple[float, float]]:
        """Return the means on which engine and client differ by more than `AGREEMENT`: this side's and the other's."""
        pairs = {name: (getattr(self, name), getattr(self.other_side, name, None)) for name in BOTH}
        return {
            name: (ours.mean, theirs)
            for name, (ours, theirs) in pairs.items()
            if ours is not None
            and theirs is not None
            and abs(ours.mean - theirs) > AGREEMENT * max(ours.mean, theirs)
        }

    def above(self, limits: Mapping[str, float]) -> str | None:
        """Return the first 99th percentile that is above its limit, or was not measured, in words; None if all are within.

        Args:
            limits: By name, such as `ttft_p99`.
        """
        measured = self.scalars()
        for name, limit in limits.items():
            latency = name.removesuffix("_p99").upper()
            if name not in measured:
                return f"{latency} was not measured"
            if measured[name] > limit:
                return f"{latency} p99 {measured[name]:.3g} s is above {limit:g} s"
        return None

    def latencies(self) -> Iterator[tuple[str, Spread]]:
        """Yield the latencies that were measured, with their names in tables."""
        for field, name in LATENCIES.items():
            spread = getattr(self, field)
            if spread is not None:
                between_chunks = field == "itl" and self.measured_by == "client"
                yield f"{name}, between chunks" if between_chunks else name, spread

    def scalars(self) -> dict[str, float]:
        """Return all known values by name, such as `itl_p99`."""
        return dict(self._scalars())

    def _scalars(self) -> Iterator[tuple[str, float]]:
        for name, value in self:
            if isinstance(value, Spread):
                yield from (
                    (f"{name}_{part}", float(number)) for part, number in value if part != "n"
                )
            elif isinstance(value, Goodput):
                if value.share is not None:
                    yield "goodput_share", value.share
                if value.per_second is not None:
                    yield "goodput_per_second", value.per_second
            elif isinstance(value, OtherSide):
                yield from (
                    (f"{value.by}_{part}_mean", getattr(value, part))
                    for part in BOTH
                    if getattr(value, part) is not None
                )
            elif isinstance(value, int | float):
                yield name, float(value)


class GoodputCount:
    """Counts answers within limits."""

    def __init__(self, limits: GoodputLimits) -> None:
        self._limits = limits
        self._answers = self._within = self._unmeasured = 0

    def add(self, ttft: float | None, e2el: float | None, tokens: int | None) -> None:
        """Add an answer.

        Args:
            ttft: Time to first token in seconds; None if it is not known.
            e2el: Time to the last token in seconds; None if it is not known.
            tokens: Tokens of the answer; with a single token it has no time per output token, and is within that limit.
        """
        tpot: float | None = None
        if tokens is not None and tokens < 2:
            tpot = 0.0
        elif tokens is not None and ttft is not None and e2el is not None:
            tpot = (e2el - ttft) / (tokens - 1)
        limits = self._limits
        pairs = ((ttft, limits.ttft), (tpot, limits.tpot), (e2el, limits.e2el))
        checked = [(value, limit) for value, limit in pairs if limit is not None]
        if any(value is not None and value > limit for value, limit in checked):
            self._answers += 1
        elif any(value is None for value, _ in checked):
            self._unmeasured += 1
        else:
            self._answers += 1
            self._within += 1

    def add_failed(self) -> None:
        """Add an answer that failed."""
        self._answers += 1

    def result(self, seconds: float | None) -> Goodput:
        """Return the goodput of a session that took this long; None: others shared its seconds."""
        return Goodput(
            limits={**self._limits.given},
            answers=self._answers,
            within=self._within,
            unmeasured=self._unmeasured,
            per_second=self._within / seconds if seconds else None,
        )


MOST_KEPT = 1_000_000
"""Most durations kept one by one, 8 MB; more are counted in bins. Requests stay below it, gaps between tokens may not."""


class Durations:
    """Durations of any number: `numpy`'s percentiles up to `MOST_KEPT`, beyond them those of bins whose widths grow by 1 %."""

    def __init__(self) -> None:
        self._edges: FloatArray = np.geomspace(1e-6, 1e6, 2778)
        self._counts: IntArray = np.zeros(len(self._edges) + 1, np.int64)
        self._sum = 0.0
        self._kept = array("d")

    def add(self, seconds: Iterable[float]) -> None:
        """Add durations in seconds."""
        self._kept.extend(seconds)
        if len(self._kept) >= MOST_KEPT:
            self._count()

    def spread(self) -> Spread | None:
        """Return mean and percentiles; None without durations."""
        if not self._counts.any():
            return _spread(np.array(self._kept, np.float64))
        self._count()
        n = int(self._counts.sum())
        reached = np.cumsum(self._counts)
        bins = np.searchsorted(reached, np.array(PERCENTILES) / 100 * n)
        low = self._edges[np.maximum(bins - 1, 0)]
        high = self._edges[np.minimum(bins, len(self._edges) - 1)]
        values = dict(zip(PERCENTILES, np.sqrt(low * high).tolist(), strict=True))
        return Spread(mean=self._sum / n, n=n, **{f"p{p}": value for p, value in values.items()})

    def _count(self) -> None:
        values = np.array(self._kept, np.float64).clip(min=0.0)
        self._kept = array("d")
        self._sum += float(values.sum())
        bins = np.searchsorted(self._edges, values)
        self._counts += np.bincount(bins, minlength=len(self._counts))


# Speed of stored answers, from the times that their rows hold: for engines that do not measure themselves.


def speed_of_times(
    latency: FloatArray, time_to_first_token: FloatArray, tokens: FloatArray
) -> Speed | None:
    """Return latencies as the client measured them; None if there are none.

    Args:
        latency: Shape (n_rows,), seconds from the request to the last token; NaN if not known.
        time_to_first_token: Shape (n_rows,), seconds; NaN if not known.
        tokens: Shape (n_rows,), tokens of the answers; NaN if not known.
    """
    if np.isnan(latency).all():
        return None
    several = tokens > 1
    per_token = (latency - time_to_first_token)[several] / (tokens[several] - 1)
    return Speed(
        measured_by="client",
        ttft=_spread(time_to_first_token),
        tpot=_spread(per_token),
        e2el=_spread(latency),
        requests=int((~np.isnan(latency)).sum()),
    )


def _spread(values: FloatArray) -> Spread | None:
    known = values[~np.isnan(values)].clip(min=0.0)  # two processes have two clocks
    if known.size == 0:
        return None
    levels = np.percentile(known, PERCENTILES).tolist()
    named = {f"p{p}": level for p, level in zip(PERCENTILES, levels, strict=True)}
    return Spread(mean=float(known.mean()), n=int(known.size), **named)


# Memory of an engine as it was at its start.

MIB, GIB = 1 << 20, 1 << 30


def gib(size: float) -> str:
    """Return a size in bytes as text in GiB, or in MiB if it is small."""
    return f"{size / GIB:,.1f} GiB" if abs(size) >= GIB / 10 else f"{size / MIB:,.1f} MiB"


class EngineMemory(StrictModel):
    """Memory and KV cache of a loaded engine. Bytes are those of one GPU, tokens those of one copy of the model."""

    kv_cache_tokens: int | None = Field(None, ge=0)
    """Capacity of the KV cache in tokens, as vLLM counts it."""
    kv_cache_concurrency: float | None = Field(None, ge=0)
    """Requests of the engine's greatest length that the KV cache holds at the same time."""
    weights: int | None = Field(None, ge=0)
    """Bytes of the weights on the fullest GPU, by vLLM's own model class. None: not known, or a draft model or an adapter
    takes memory too."""
    kv_cache: int | None = Field(None, ge=0)
    """Bytes of the KV cache on this GPU. None: not known."""
    usable: int | None = Field(None, ge=0)
    """Bytes of a GPU that vLLM may use. None: on a CPU, or the size of the KV cache was set."""
    max_num_batched_tokens: int = Field(ge=1)
    max_num_seqs: int = Field(ge=1)

    @property
    def other(self) -> int | None:
        """Bytes that are neither weights nor KV cache: activations, CUDA graphs, libraries. None: not known."""
        if self.usable is None or self.weights is None or self.kv_cache is None:
            return None
        return max(self.usable - self.weights - self.kv_cache, 0)


def relative_spread(rates: FloatArray) -> float | None:
    """Return half of the 95 % interval of the mean of some rates, relative to it, by Student's t; None for fewer than 3."""
    from scipy.special import stdtrit

    if len(rates) < 3:
        return None
    error = float(rates.std(ddof=1)) / float(np.sqrt(len(rates)))
    return float(stdtrit(len(rates) - 1, 0.975)) * error / float(rates.mean())
