"""The job of tuning, and its result as `--json` prints it."""

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from regrade.jobs.job import GenerationJob
from regrade.jobs.time_spent import TimeSpent
from regrade.settings import Settings
from regrade.settings.marks import FIRST, NOT_MEASURED, Absent, Option
from regrade.stats.speed import Speed
from regrade.tuning.search.records import Tuning

SEARCH = Option(group="Search")


class LatencyLimits(Settings):
    """Largest accepted latencies, as 99th percentiles in seconds."""

    model_config = ConfigDict(title="Limits")
    option_group = "Search"

    ttft_p99: float | None = Field(None, gt=0)
    """Time to first token. Default: no limit."""
    tpot_p99: float | None = Field(None, gt=0)
    """Time per output token. Default: no limit."""
    e2el_p99: float | None = Field(None, gt=0)
    """Time until the last token. Default: no limit."""

    @property
    def given(self) -> dict[str, float]:
        """The limits that were given, by name."""
        return self.model_dump(exclude_none=True)

    def broken_by(self, speed: Speed | None) -> str | None:
        """Return the first latency that is too long, in words; None if all are within the limits or not limited."""
        for name, limit in self.given.items():
            latency = name.removesuffix("_p99")
            spread = getattr(speed, latency, None)
            if spread is None:
                return f"{latency.upper()} was not measured"
            if spread.p99 > limit:
                return f"{latency.upper()} p99 {spread.p99:.3g} s is above {limit:g} s"
        return None


class TuneJob(GenerationJob):
    """Answers to generate while the fastest engine settings are searched for."""

    lacks = (NOT_MEASURED,)

    limits: Annotated[LatencyLimits, FIRST] = Field(
        LatencyLimits(), title="Limits on latency", examples=["{ttft_p99: 2}"]
    )
    """Largest accepted latencies. Default: only throughput counts."""
    starts: Annotated[int, FIRST, SEARCH] = Field(4, ge=1, le=32, title="Engine starts")
    """Most engine starts."""
    most_in_flight: Annotated[int | None, FIRST, SEARCH] = Field(
        None, ge=1, title="Most requests in flight"
    )
    """Most requests in flight to try. Default: as many as fit, up to 1,024."""
    goodput: Absent = None

    @model_validator(mode="after")
    def _can_be_tuned(self) -> Self:
        if self.engine.kind != "vllm":
            raise ValueError(
                f"engine '{self.engine.kind}' cannot be tuned: its settings belong to the server. `regrade sweep "
                "--in-flight 1,4,16` measures a server"
            )
        if self.several_models:
            raise ValueError(f"settings are tuned for one model, but '{self.model}' names several")
        if len(self.names) > 1:
            raise ValueError(
                f"settings are tuned for one kind of workload, but {len(self.names)} benchmarks are given "
                f"({', '.join(self.names)}). Give the one whose questions are like those of the runs to come"
            )
        return self


class TuneResult(BaseModel):
    """Settings that a search found, and the answers that it made."""

    model_config = ConfigDict(frozen=True)

    tuning: Tuning
    path: str
    """Path of the measurement in the answer repository."""
    repository: str
    answer_set_id: str
    answers_made: int
    """Answers of the evaluation that the measurements generated."""
    rows: int
    expected_rows: int
    load_seconds: float
    measure_seconds: float
    time_spent: TimeSpent | None = None
    """Parts of the run's wall-clock."""
