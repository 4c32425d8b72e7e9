"""Results of a sweep, as `--json` prints them and as its page shows them."""

from pydantic import Field

from regrade.jobs.time_spent import TimeSpent
from regrade.settings import StrictModel
from regrade.stats.speed import Speed
from regrade.tuning.sweep.points import IN_FLIGHT, named


class PairedTest(StrictModel):
    """A point's answers against those of the first point, question by question; see `regrade compare`."""

    n: int
    """Questions with a value at both points."""
    difference: float
    """Accuracy of this point minus that of the first, over these questions."""
    low: float
    """Lower end of the 95 % interval of the difference."""
    high: float
    worse: int
    """Questions with a lower value than at the first point."""
    better: int
    test: str
    p_value: float


class Measured(StrictModel):
    """A point on one benchmark."""

    benchmark: str
    answer_set_id: str
    revision: str
    rows: int
    expected_rows: int
    failed: int
    """Requests that failed or were refused; their rows hold no answer and count in no rate."""
    accuracy: float | None
    accuracy_stderr: float | None
    accuracy_low: float | None
    accuracy_high: float | None
    seconds: float
    """Wall-clock time of generating all answers, over all sessions, without loading; the mean if all were asked several times."""
    times: tuple[float, ...] = ()
    """Seconds of each time that all questions were asked, that of the stored answers first."""
    spread: float | None = None
    """Half of the 95 % interval of the mean speed, relative to it; None: not known. See `regrade.stats.speed.relative_spread`."""
    seconds_per_answer: float | None
    """Mean time from sending a request to its last token."""
    answers_per_second: float | None
    tokens_per_second: float | None
    """Tokens of answers per second."""
    tokens_per_second_per_gpu: float | None
    tokens_per_second_per_user: float | None
    """Tokens per second of one answer while it is written: 1 / median TPOT."""
    speed_up: float | None
    """Mean wall-clock time of the first point divided by that of this one; None unless both have all answers."""
    measured_by: str | None
    """`engine` or `client`; None if nothing was measured."""
    speed: Speed | None
    device: str | None
    engine_version: str | None
    sessions: int
    model: str | None = None
    """Name of the model."""
    measured_at: str | None = None
    """Start of the last session, in ISO 8601."""
    figures: dict[str, float | None] = Field(default_factory=dict)
    """Figures of the stored answers and their scoring, by name; see `regrade.answers.figures`."""
    test: PairedTest | None = None
    """None for the first point, and if the two cannot be compared."""
    note: str | None = None

    @property
    def answered(self) -> int:
        """Rows with an answer."""
        return self.rows - self.failed


class PointResult(StrictModel):
    """A point of a sweep."""

    number: int
    name: str
    settings: dict[str, str]
    in_flight: int | None
    gpus: int
    """GPUs, or on a CPU processes, that the engine's settings divide the model among."""
    answers: str
    """Answer repository of the point."""
    benchmarks: tuple[Measured, ...] = ()
    failure: str | None = None
    """Reason why the point has no result, or not all of it."""

    @property
    def curve(self) -> str:
        """Settings other than the requests in flight; points with equal ones form a curve. "" if there are none."""
        return named({name: value for name, value in self.settings.items() if name != IN_FLIGHT})

    def on(self, benchmark: str) -> Measured | None:
        """Return the measurements on a benchmark."""
        return next((m for m in self.benchmarks if m.benchmark == benchmark), None)


class SweepResult(StrictModel):
    """A sweep."""

    sweep_id: str
    benchmarks: tuple[str, ...]
    """Names in the order of the tables."""
    axes: dict[str, tuple[str, ...]]
    """Values by setting, the requests in flight last."""
    points: tuple[PointResult, ...]
    engine_starts: int
    """Engine starts of this run; 0 if all answers were stored."""
    time_spent: TimeSpent | None = None
    """Parts of the run's wall-clock; None if all answers were stored."""
    command: str | None = None
    """Command that makes this sweep, or continues it."""
    folder: str | None = None
    """Folder of the page, its plots and this document; None if none was written."""
    tracking_uri: str | None = None
    mlflow_run_id: str | None = None
    mlflow_url: str | None = None

    @property
    def failed(self) -> list[PointResult]:
        """Points without a complete result."""
        return [point for point in self.points if point.failure is not None]
