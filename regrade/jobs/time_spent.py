"""The parts of a run's wall-clock: seconds in which its engine loaded, was full or had nothing to do, and a way to shorten the largest."""

from collections.abc import Iterator
from itertools import accumulate, pairwise
from time import monotonic
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, computed_field

from regrade.stats.occupancy import Occupancy
from regrade.text.blocks import Block, Code, Line, with_code

Part = Literal["loading", "compiling", "filling", "full", "draining", "generating", "idle"]
"""Parts of a run. `generating` stands for three of them, of an engine that does not tell how full it was."""
_ANSWERING: tuple[Part, ...] = ("filling", "full", "draining", "generating")
_SIGNS: dict[Part, str] = {
    "loading": "░",
    "compiling": "▒",
    "filling": "▂",
    "full": "█",
    "draining": "▅",
    "generating": "█",
    "idle": "·",
}
_WIDTH = 60
"""Characters of the bar."""
_ADVICE: dict[Part, str] = {
    "loading": "More benchmarks and checkpoints in one run (`--benchmark`, `--model 'run/checkpoint-*'`) share a load.",
    "compiling": "`--engine.enforce-eager` leaves it out; answers take longer then, so that it pays for few of them.",
    "filling": "Requests were too few, or came too slowly, to fill the engine: more benchmarks in one run keep it full.",
    "full": "`regrade tune` looks for faster settings of the engine, and `--engine.tuned` uses them.",
    "draining": "The longest answers were alone at the end: more benchmarks in one run fill the engine meanwhile, `--max-tokens` bounds them.",
    "generating": "`regrade tune` looks for faster settings of the engine, and `--engine.tuned` uses them.",
}
_BEFORE = "Before loading, a run waits for the engines of others, and starts Prefect unless `PREFECT_API_URL` names a server that runs."
_LOADS = "An engine was loaded {} times: models share one if their configurations and the engine's settings are equal."
_AFTER = "`regrade generate` ends with the last answer, and `regrade score` then needs no GPU."


class TimeSpent(BaseModel):
    """Seconds of a run from the start of its command to its result. The parts add up to `seconds`."""

    model_config = ConfigDict(frozen=True)

    seconds: float
    parts: dict[Part, float]
    """Those that took no time are missing."""
    before: float
    """Idle seconds before the engine began to load."""
    after: float
    """Idle seconds after the last answer."""
    tokens: int
    """Tokens that were generated."""
    lost_tokens: int
    """Those in answers that failed or were truncated."""
    loads: int = 1
    """Loads of an engine, without those that only replaced its weights."""
    advised: bool = Field(True, exclude=True)
    """The result tells how the largest part gets shorter; not of a run that asks what is fixed, and could not follow it."""

    @property
    def largest(self) -> Part:
        """The part that took longest."""
        return max(self.parts, key=lambda part: self.parts[part])

    @computed_field  # type: ignore[prop-decorator]
    @property
    def advice(self) -> str | None:
        """A setting or command that would take the largest part away; None for a run that could not follow it."""
        if not self.advised:
            return None
        if self.largest == "idle":
            return _BEFORE if self.before > self.after else _AFTER
        if self.largest == "loading" and self.loads > 1:
            return _LOADS.format(self.loads)
        return _ADVICE[self.largest]

    @property
    def text(self) -> str:
        """The parts in a line."""
        from regrade.stats.scale import percent  # noqa: PLC0415 - slow, and few commands show this

        parts = ", ".join(
            f"{_SIGNS[part]} {part} {seconds:,.1f} s" for part, seconds in self.parts.items()
        )
        idle = f" ({self.before:,.1f} s before loading, {self.after:,.1f} s after the last answer)"
        answering = sum(self.parts.get(part, 0.0) for part in _ANSWERING)
        rate = (
            f"; {self.tokens / answering:,.0f} tokens/s while answering"
            if self.tokens and answering
            else ""
        )
        share = self.lost_tokens / self.tokens if self.tokens else 0.0
        lost = f"; {percent(share)} of the tokens in failed or truncated answers" if share else ""
        return f"Where the time went, {self.seconds:,.1f} s: {parts}{idle}{rate}{lost}."

    @property
    def bar(self) -> str:
        """The parts in characters, each at its share of the width, in the order of time."""
        idle = self.parts.get("idle", 0.0) - self.before
        parts: dict[Part, float] = {**self.parts, "idle": max(0.0, idle)}
        passed = [0.0, *accumulate((min(self.before, self.seconds), *parts.values()))]
        ends = (round(_WIDTH * min(1.0, seconds / self.seconds)) for seconds in passed)
        signs = (_SIGNS["idle"], *(_SIGNS[part] for part in parts))
        return "".join(
            sign * (end - start) for sign, (start, end) in zip(signs, pairwise(ends), strict=True)
        )

    def blocks(self) -> Iterator[Block]:
        """Yield a line, a bar, and the advice, if it can be followed."""
        yield Line(self.text)
        yield Line((Code(self.bar),))
        if self.advice is not None:
            yield Line(with_code(f"Most of it was {self.largest}. {self.advice}"))


class RunClock:
    """Counts the seconds of a run's parts."""

    def __init__(
        self, begun: float | None = None, *, advised: bool = True, around: "RunClock | None" = None
    ) -> None:
        """Begin.

        Args:
            begun: Time of `time.monotonic` at which the command was started. None: now.
            advised: See `TimeSpent.advised`.
            around: Clock of the run of which this one is a part; it counts what this one counts.
        """
        self._advised = advised
        self._around = around
        self._begun = monotonic() if begun is None else begun
        self._first: float | None = None
        """Beginning of the first load."""
        self._last = self._begun
        """Time of the last answer, or of the end of a load."""
        self._loads = 0
        self._seconds: dict[Part, float] = dict.fromkeys(get_args(Part), 0.0)

    def loaded(
        self, load_seconds: float, compile_seconds: float, *, weights_only: bool = False
    ) -> None:
        """Count the seconds of a load that has just ended, of which a part is compiling. Waiting for another run's engine is idle.

        Args:
            load_seconds: Seconds of the load.
            compile_seconds: Those of compiling.
            weights_only: The weights took the place of another model's in an engine that had been loaded.
        """
        if self._around is not None:
            self._around.loaded(load_seconds, compile_seconds, weights_only=weights_only)
        self._last = monotonic()
        self._loads += not weights_only
        if self._first is None:
            self._first = self._last - load_seconds
        self._seconds["loading"] += load_seconds - compile_seconds
        self._seconds["compiling"] += compile_seconds

    def generated(self, started: float, occupancy: Occupancy | None) -> None:
        """Count the seconds since `started`, a time of `time.monotonic`, in which answers were generated, also by an engine that failed."""
        if self._around is not None:
            self._around.generated(started, occupancy)
        self._last = monotonic()
        if occupancy is None:
            self._seconds["generating"] += self._last - started
        else:
            self._seconds["filling"] += occupancy.filling
            self._seconds["full"] += occupancy.full
            self._seconds["draining"] += occupancy.draining

    def spent(self, tokens: int, lost_tokens: int) -> TimeSpent | None:
        """Return the parts until now; None if no engine was used."""
        now = monotonic()
        if self._first is None:
            return None
        total = now - self._begun
        found = self._seconds | {"idle": max(0.0, total - sum(self._seconds.values()))}
        return TimeSpent(
            seconds=total,
            parts={part: seconds for part, seconds in found.items() if seconds > 0},
            before=self._first - self._begun,
            after=now - self._last,
            tokens=tokens,
            lost_tokens=lost_tokens,
            loads=self._loads,
            advised=self._advised,
        )
