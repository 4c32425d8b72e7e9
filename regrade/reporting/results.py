"""What a flow returns, and `--json` prints."""

from pydantic import BaseModel, ConfigDict

from regrade.errors import OperationError, SettingsError
from regrade.scoring.score import Scored
from regrade.stats.metrics import Summary


class Result(BaseModel):
    """Base of results: frozen."""

    model_config = ConfigDict(frozen=True)


class ScoreResult(Result):
    """One scoring."""

    scorer: str
    version: int
    source_hash: str
    headline: bool
    """Whether this scorer gives the benchmark's headline number."""
    intact_only: str | None = None
    """Set where damaged shards were left out, such as `intact only: 3 of 4 shards`: not the answer set's score."""
    metrics: dict[str, float | int | None]
    """Everything in `regrade.stats.metrics.Summary` that is one number."""
    mlflow_run_id: str | None = None


class AnswerSetResult(Result):
    """One answer set, as far as the flow went with it."""

    benchmark: str
    model: str
    answer_set_id: str
    revision: str | None
    """Commit of the repository that holds these answers (and scores, where the flow wrote some)."""
    url: str | None
    rows: int
    expected_rows: int
    generated: int
    """Rows that this flow run generated; 0 where the answers were there."""
    scores: tuple[ScoreResult, ...] = ()
    mlflow_run_id: str | None = None
    """MLflow run of the headline scoring."""
    mlflow_url: str | None = None
    """Page of the model's evaluation in MLflow; None where no server is known that shows it."""
    seconds: dict[str, float]
    tokens_per_second: float | None = None


class NotScored(Result):
    """A scoring, or a whole answer set, that was asked for and is not there."""

    answer_set: str
    """Its id, or the path of a manifest that cannot be read."""
    title: str = ""
    """Benchmark and model, where they are known."""
    scorer: str | None = None
    reason: str
    damaged: bool
    """Whether the stored answers are to blame, rather than what was asked."""

    @property
    def text(self) -> str:
        """One line for people."""
        what = " ".join(part for part in (self.answer_set, self.title) if part)
        return f"{what}, {self.scorer}: {self.reason}" if self.scorer else f"{what}: {self.reason}"


class Evaluation(Result):
    """What `evaluate`, `generate` and `score` give."""

    answer_sets: tuple[AnswerSetResult, ...]
    not_scored: tuple[NotScored, ...] = ()
    repository: str
    """Answer repository."""
    tracking_uri: str | None = None
    """Where MLflow keeps the runs, without credentials; None where nothing was tracked."""


def flat_metrics(summary: Summary) -> dict[str, float | int | None]:
    """Return every single number of a summary by name."""
    flat: dict[str, float | int | None] = dict(summary.overall.model_dump())
    flat["macro_accuracy"] = summary.macro_accuracy
    flat.update({f"pass_at_{k}": value for k, value in summary.pass_at.items()})
    if summary.majority_accuracy is not None:
        flat["majority_accuracy"] = summary.majority_accuracy
        flat["majority_stderr"] = summary.majority_stderr
    return flat


def score_result(one: Scored, mlflow_run_id: str | None) -> ScoreResult:
    """Return the result of one scoring."""
    return ScoreResult(
        scorer=one.file.scorer,
        version=one.file.version,
        source_hash=one.file.source_hash,
        headline=one.file.scorer == one.answers.manifest.scorers[0] and not one.file.left_out,
        intact_only=one.file.intact_only,
        metrics=flat_metrics(one.file.summary),
        mlflow_run_id=mlflow_run_id,
    )


class SomeNotScoredError(OperationError):
    """Some scorings were made and kept, others could not be made since the stored answers are damaged."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation
        super().__init__(evaluation)

    def __str__(self) -> str:
        return some_not_scored(self.evaluation)


class SomeUnfitError(SettingsError):
    """Some scorings were made and kept; for other answer sets the scorer that was asked for is not made."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation
        super().__init__(evaluation)

    def __str__(self) -> str:
        return some_not_scored(self.evaluation)


def some_not_scored(evaluation: Evaluation) -> str:
    """Return what was not scored, one line each."""
    done = sum(len(one.scores) for one in evaluation.answer_sets)
    lines = [f"{done} scorings are done, {len(evaluation.not_scored)} are not:"]
    return "\n  ".join([*lines, *(one.text for one in evaluation.not_scored)])
