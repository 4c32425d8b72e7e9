"""Results of the flows, as `--json` prints them."""

import shlex
from typing import Self

from pydantic import BaseModel, ConfigDict

from regrade.answers.manifest import Manifest, Stopped
from regrade.answers.result import Result
from regrade.jobs.time_spent import TimeSpent
from regrade.judging.bias import Bias
from regrade.judging.labels.calibrated import Calibrated
from regrade.judging.panel_result import PanelResult
from regrade.scorers import JUDGE
from regrade.scoring.fit import notes
from regrade.settings import JUDGE_PREFIX
from regrade.settings.errors import OperationError, RegradeError, SettingsError
from regrade.stats.metrics import Summary
from regrade.stats.named import Aggregate
from regrade.stats.scale import SHARES, Scale
from regrade.stats.speed import Speed
from regrade.text.text import duration_text


class Document(BaseModel):
    """Base class of what `--json` prints: frozen."""

    model_config = ConfigDict(frozen=True)


class SubsetResult(Document):
    """Accuracy of a subset."""

    name: str
    accuracy: float
    accuracy_stderr: float | None
    n: int


LOWEST = 5
"""Subsets that a page names."""


class ScoreResult(Document):
    """One scoring."""

    scorer: str
    version: int
    source_hash: str
    headline: bool
    """True if this scorer gives the benchmark's headline number."""
    intact_only: str | None = None
    """Set if damaged shards were left out, such as `intact only: 3 of 4 shards`: not the answer set's score."""
    notes: tuple[str, ...] = ()
    """Reasons to doubt the score, a sentence each: the scorer fits nothing, or the imported file has another score."""
    scale: Scale = SHARES
    """Scale of the accuracies in `metrics`."""
    calibrated: Calibrated | None = None
    """Figure corrected by people's labels, of a judge's scoring or one whose answers were labelled; None for others."""
    bias: Bias | None = None
    """Signs of a judge's bias; None without a judge."""
    metrics: dict[str, float | int | None]
    """Scalars of `regrade.stats.metrics.Summary` by name; see `flat_metrics`."""
    lowest: tuple[SubsetResult, ...] = ()
    """Up to five subsets with the lowest accuracy; empty if there are few subsets."""
    other_results: tuple[Aggregate, ...] = ()
    """Results beside the accuracy, such as the strict and the loose reading of instructions."""
    mlflow_run_id: str | None = None


class EarlyEnd(Document):
    """Questions that were left out because the verdict was sure, and what that saved, from the mean tokens of those asked."""

    verdict: str
    """`pass` or `regression`."""
    questions: int
    """Questions that the verdict needed."""
    of: int
    """Questions of the benchmark."""
    text: str
    """The three in words: `stopped after 312 of 1,319: regression`."""
    saved_questions: int
    saved_tokens: int
    saved_seconds: float | None
    """Seconds of an engine as fast as this run's was while it was full; None if it was not, or the tokens it computed are not known."""

    @classmethod
    def of_set(cls, manifest: Manifest, stopped: Stopped, rate: float | None) -> Self:
        """Return what an answer set that is incomplete saved.

        Args:
            manifest: The answer set.
            stopped: Its verdict.
            rate: `Occupancy.full_rate` of the engine in this run.
        """
        totals, left = manifest.totals, manifest.expected - manifest.rows
        per_row = left / manifest.rows if manifest.rows else 0.0
        tokens = round((totals.prompt_tokens + totals.completion_tokens) * per_row)
        # A question whose choices are ranked one by one has more tokens than its row counts.
        one_by_one = any("per_choice" in session.label_methods for session in manifest.sessions)
        return cls(
            verdict=stopped.verdict,
            questions=stopped.questions,
            of=stopped.of,
            text=str(stopped),
            saved_questions=left // manifest.specification.repeats,
            saved_tokens=tokens,
            saved_seconds=None if rate is None or one_by_one else tokens / rate,
        )

    @property
    def saved(self) -> str:
        """Sentences about what was asked, more than the verdict needed as requests were in flight, what was saved, and the command that asks the rest."""
        seconds = self.saved_seconds
        time = "" if seconds is None else f" and {duration_text(seconds)}"
        asked = self.of - self.saved_questions
        more = f" {asked:,} were asked." if asked > self.questions else ""
        return (
            f"{self.text}.{more} Saved: {self.saved_questions:,} questions, about {self.saved_tokens:,} tokens{time}. "
            "The same command without `--stop-when-sure` asks them."
        )


class AnswerSetResult(Document):
    """One answer set: rows, scores, costs."""

    benchmark: str
    model: str
    model_revision: str | None = None
    """Revision of the model: a commit, or a hash of the files in a folder."""
    answer_set_id: str
    revision: str | None
    """Commit of the repository that holds these answers, and scores if the flow wrote any."""
    url: str | None
    rows: int
    expected_rows: int
    stopped: EarlyEnd | None = None
    """The verdict at which the rest was left out, so that this is no result of the benchmark; None: all was asked."""
    failed: int = 0
    """Rows whose request failed and may succeed if it is sent again."""
    refused: int = 0
    """Rows whose request cannot succeed, such as a prompt longer than the model's own context."""
    repeats: int = 1
    """Answers per question."""
    generated: int
    """Rows that this flow run generated; 0 if all were stored already."""
    scores: tuple[ScoreResult, ...] = ()
    mlflow_run_id: str | None = None
    """MLflow run of the headline scoring."""
    mlflow_url: str | None = None
    """Page of the model's evaluation in MLflow; None without an MLflow server."""
    report_url: str | None = None
    """Page of the report in MLflow; None without one, or without an MLflow server."""
    seconds: dict[str, float]
    """Wall-clock seconds of each stage in this run; stages that it did not need are missing."""
    tokens_per_second: float | None = None
    """Generated tokens per second in this run; None if it generated nothing."""
    figures: dict[str, float | None] = {}
    """Figures of the answers and the headline scoring, over all sessions, by name; see `regrade.answers.figures`."""
    cost: float | None = None
    """Price of all its tokens; None if no price per token is given."""
    judged: str | None = None
    """Model whose answers are judged; None if these are no verdicts of a judge."""
    speed: Speed | None = None
    """Measurements inside the engine; None if this flow run generated nothing, or its engine takes none."""

    @property
    def unanswered(self) -> int:
        """Rows that are not stored, or whose request failed and may succeed if it is sent again; 0 if they are left out."""
        return 0 if self.stopped else self.expected_rows - self.rows + self.failed

    @property
    def too_few_verdicts(self) -> tuple[ScoreResult, ...]:
        """Scorings of a judge with verdicts on fewer answers than a headline number needs."""
        if not self.benchmark.startswith(JUDGE_PREFIX):
            return ()
        return tuple(
            score
            for score in self.scores
            if score.scorer == JUDGE and not score.intact_only
            if not (score.headline and score.metrics["n"])
        )


class NotScored(Document):
    """A requested scoring that failed, or all scorings of an answer set."""

    answer_set: str
    """Id of the answer set, or path of a manifest that cannot be read."""
    title: str = ""
    """Benchmark and model, if known."""
    scorer: str | None = None
    reason: str
    damaged: bool
    """True if the stored answers are damaged, False if the request does not fit them."""

    @property
    def text(self) -> str:
        """One line for people."""
        name = " ".join(part for part in (self.answer_set, self.title) if part)
        return f"{name}, {self.scorer}: {self.reason}" if self.scorer else f"{name}: {self.reason}"


class Gated(Document):
    """The verdict of a gate on an evaluation."""

    verdict: str
    """`pass`, `regression` or `cannot tell`."""
    summary: str
    """One sentence with the reasons."""


class Evaluation(Document):
    """Result of `evaluate`, `generate` or `score`."""

    answer_sets: tuple[AnswerSetResult, ...]
    not_scored: tuple[NotScored, ...] = ()
    panels: tuple[PanelResult, ...] = ()
    """Several judges of the same answers, combined; empty if no answers have several."""
    repository: str
    """Answer repository."""
    tracking_uri: str | None = None
    """MLflow URI without credentials; None if nothing was tracked."""
    gate: Gated | None = None
    """The verdict of the evaluation's gate; None without one, and of a first run, which has no baseline."""
    time_spent: TimeSpent | None = None
    """The parts of the run's wall-clock; None if it generated nothing."""


class NotPassedError(RegradeError):
    """The verdict of an evaluation's gate is not `pass`."""


def check_answered(evaluation: Evaluation) -> None:
    """Raise an error if an answer is missing that could be generated, or a judge graded too few for a headline number.

    Raises:
        SomeUnansweredError: If there is such an answer; it counts them.
        TooFewVerdictsError: If there is such a judge.
    """
    if any(answers.unanswered for answers in evaluation.answer_sets):
        raise SomeUnansweredError(evaluation)
    if any(answers.too_few_verdicts for answers in evaluation.answer_sets):
        raise TooFewVerdictsError(evaluation)


def flat_metrics(summary: Summary) -> dict[str, float | int | None]:
    """Return the scalars of a summary by name."""
    flat: dict[str, float | int | None] = dict(summary.overall.model_dump())
    return flat | summary.averages()


def lowest_subsets(summary: Summary) -> tuple[SubsetResult, ...]:
    """Return the subsets with the lowest accuracy, the lowest first; none of fewer than `LOWEST` subsets."""
    subsets = [
        SubsetResult(
            name=subset.name,
            accuracy=subset.metrics.accuracy,
            accuracy_stderr=subset.metrics.accuracy_stderr,
            n=subset.metrics.n,
        )
        for subset in summary.subsets
        if subset.metrics.accuracy is not None
    ]
    if len(subsets) < LOWEST:
        return ()
    return tuple(sorted(subsets, key=lambda subset: (subset.accuracy, subset.name))[:LOWEST])


def score_result(
    scored: Result,
    mlflow_run_id: str | None,
    calibrated: Calibrated | None = None,
    bias: Bias | None = None,
) -> ScoreResult:
    """Return the result of one scoring."""
    return ScoreResult(
        scorer=scored.file.scorer,
        version=scored.file.version,
        source_hash=scored.file.source_hash,
        headline=scored.headline,
        notes=tuple(notes(scored.answers, scored.file)),
        intact_only=scored.file.intact_only,
        scale=scored.file.scale,
        calibrated=calibrated,
        bias=bias,
        metrics=flat_metrics(scored.file.summary),
        lowest=lowest_subsets(scored.file.summary),
        other_results=scored.file.other_results,
        mlflow_run_id=mlflow_run_id,
    )


class EvaluationError(RegradeError):
    """A part of an evaluation failed, and its other results were kept."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation
        super().__init__(evaluation)

    def __str__(self) -> str:
        done = sum(len(answers.scores) for answers in self.evaluation.answer_sets)
        failed = self.evaluation.not_scored
        lines = [f"{done} of {done + len(failed)} scorings are done. Not done:"]
        return "\n  ".join([*lines, *(scoring.text for scoring in failed)])


class SomeNotScoredError(EvaluationError, OperationError):
    """Some answers could not be scored because they are damaged; the other scorings were kept."""


class SomeUnansweredError(EvaluationError, OperationError):
    """Not all questions were answered; everything else is done."""

    def __str__(self) -> str:
        lines = [
            f"{answers.benchmark} · {answers.model}: {answers.unanswered:,} of {answers.expected_rows:,} answers missing "
            f"({answers.failed:,} failed)."
            for answers in self.evaluation.answer_sets
            if answers.unanswered
        ]
        return " ".join([*lines, "The same command sends their requests again."])


class TooFewVerdictsError(EvaluationError, OperationError):
    """A judge gave too few verdicts for a headline number; everything else is done."""

    def __str__(self) -> str:
        return " ".join(
            f"{answers.benchmark} · {answers.model}: {score.metrics['n']:,} of {score.metrics['rows']:,} answers have a verdict "
            f"({(score.metrics['rows'] or 0) - (score.metrics['n'] or 0):,} have none), too few for a headline number (`--min-coverage`). "
            f"`regrade show {answers.answer_set_id[:8]} --answers {shlex.quote(self.evaluation.repository)}` has the replies."
            for answers in self.evaluation.answer_sets
            for score in answers.too_few_verdicts
        )


class SomeUnfitError(EvaluationError, SettingsError):
    """The requested scorer does not fit some answer sets; the other scorings were kept."""
