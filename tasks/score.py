"""Score stored answers at a pinned revision, publish the scores, and compare them with the previous ones."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from regrade.answers import publishing
from regrade.answers.base import Repository
from regrade.answers.documents import HEAL
from regrade.answers.result import Result
from regrade.answers.sets import AnswerSet
from regrade.judging.bias import Bias, bias_of
from regrade.judging.labels.calibrate import calibrate
from regrade.judging.labels.calibrated import Calibrated
from regrade.records.rubrics.facts import answers_per_question
from regrade.results.display import current_display
from regrade.scoring.diff import Diff
from regrade.scoring.diff_sides import diff_with_before, earlier_scoring
from regrade.scoring.diff_text import blocks, diff_line
from regrade.scoring.fit import notes
from regrade.scoring.score import score_answers
from regrade.settings import ScoringOptions
from regrade.settings.errors import DamagedAnswersError, SettingsError
from regrade.stats.numbers import average_text
from regrade.text.markdown import markdown
from regrade.text.text import counted, part_of
from tasks.step import DELAYS, PUBLISHING_DELAYS, step

if TYPE_CHECKING:
    from tasks.work import Work

logger = logging.getLogger("regrade.score")
publish_logger = logging.getLogger("regrade.publish")


@dataclass(frozen=True)
class ScoreChange:
    """The difference between a new scoring and the previous one."""

    diff: Diff
    line: str
    page: str
    """Markdown."""


@dataclass(frozen=True)
class Graded(Result):
    """A result with what labels and an earlier scoring say about it."""

    calibrated: Calibrated | None = None
    """Figure corrected by people's labels; None without a judge and labels."""
    bias: Bias | None = None
    """Signs of a judge's bias; None without a judge."""
    replaces: bool = False
    """True for a new scoring that has an earlier one to compare with."""
    change: ScoreChange | None = None
    """Difference from the earlier scoring; see `compare_set`."""


@dataclass
class ScoredSet:
    """An answer set and its results."""

    answers: AnswerSet
    point: str = ""
    """Point of a sweep, for log lines."""
    scored: list[Graded] = field(default_factory=list)
    errors: dict[str, SettingsError | DamagedAnswersError] = field(default_factory=dict)
    """Reasons for missing scorings, by scorer."""

    @property
    def answer_set_id(self) -> str:
        """Id of the answer set."""
        return self.answers.manifest.answer_set_id

    @property
    def title(self) -> str:
        """Benchmark and model, and the point of a sweep, for log lines and pages."""
        title = self.answers.manifest.specification.title
        return f"{title} ({self.point})" if self.point else title


@step("score", run_name="score {work.title}", delays=DELAYS)
def score_when_published(
    work: "Work", scorers: tuple[str, ...], *, options: ScoringOptions
) -> ScoredSet | None:
    """Wait until the answers of a running flow are published, and score them; None if they are not this run's to score, or not all."""
    if work.publishing is not None:
        work.publishing.wait()
    answers = work.published
    if answers is None or answers.manifest.state != "complete" or not work.ends_here:
        return None
    return _score(ScoredSet(answers), scorers, force=False, intact=False, options=options)


@step("score", run_name="score {answers.manifest.specification.title}", delays=DELAYS)
def score_set(
    answers: AnswerSet,
    scorers: tuple[str, ...],
    *,
    force: bool,
    intact: bool,
    options: ScoringOptions,
    point: str = "",
) -> ScoredSet:
    """Score an answer set with each scorer; a stored scoring by the same version is reused unless `force`.

    If a scorer does not fit or answers are damaged, the error is recorded, and the other scorers go on.
    """
    return _score(ScoredSet(answers, point), scorers, force=force, intact=intact, options=options)


def _score(
    result: ScoredSet,
    scorers: tuple[str, ...],
    *,
    force: bool,
    intact: bool,
    options: ScoringOptions,
) -> ScoredSet:
    answers = result.answers
    display = current_display()
    expected = answers.manifest.n_samples * answers.manifest.specification.repeats
    if answers.manifest.rows < expected:
        logger.warning(
            "%s: incomplete; scoring the %s that exist",
            result.title,
            part_of(answers.manifest.rows, expected, "answer"),
        )
    for name in scorers:
        try:
            scored = score_answers(
                answers,
                name,
                force=force,
                intact=intact,
                options=options,
                on_scored=partial(display.scoring, f"{result.title}: {name}"),
            )
            graded = Graded(
                answers,
                scored.file,
                scored.table,
                calibrated=calibrate(scored),
                bias=bias_of(scored),
                replaces=earlier_scoring(scored) is not None,
            )
        except (SettingsError, DamagedAnswersError) as error:
            logger.warning("%s: not scored with %s: %s", result.title, name, error)
            if isinstance(error, DamagedAnswersError):
                logger.warning("%s: %s", result.title, HEAL)
            result.errors[name] = error
            continue
        result.scored.append(graded)
        _log(result.title, graded)
        for note in notes(answers, scored.file):
            logger.warning("%s: %s", result.title, note)
    return result


@step("publish scores", delays=PUBLISHING_DELAYS)
def publish_scores(repository: Repository, scored: Sequence[Graded]) -> str | None:
    """Publish all new scorings in one commit, and return the revision; None if the repository has no commit."""
    new = [(entry.answers, entry.file, entry.table) for entry in scored if entry.table is not None]
    revision = publishing.publish_scores(repository, new)
    if new:
        publish_logger.info("%s published at %s", counted(len(new), "scoring"), str(revision)[:12])
    return revision


@step("compare", run_name="compare {title}")
def compare_set(scored_set: ScoredSet, title: str) -> None:  # noqa: ARG001 - name of the task run
    """Compare the new scorings of an answer set with the previous ones.

    Only shows what changed: a flow runs it after publishing, and goes on if it fails.

    Args:
        scored_set: Its results get their `change`.
        title: Benchmark and model.
    """
    for place, scored in enumerate(scored_set.scored):
        diff = diff_with_before(scored) if scored.replaces else None
        if diff is None:
            continue
        change = ScoreChange(diff, diff_line(diff), markdown(blocks(diff)))
        scored_set.scored[place] = replace(scored, change=change)
        logger.info("%s: %s", scored_set.title, change.line)


def _log(title: str, scored: Graded) -> None:
    overall = scored.file.summary.overall
    repeats = answers_per_question(scored.answers.manifest.specification)
    accuracy = "no answers"
    if overall.accuracy is not None:
        accuracy = average_text(
            overall.accuracy, overall.accuracy_stderr, repeats, 2, scored.file.scale
        )
    logger.info(
        "%s: %s %s of %d%s%s%s",
        title,
        scored.file.scorer,
        accuracy,
        overall.n,
        f", {scored.file.intact_only}" if scored.file.intact_only else "",
        "" if scored.calibrated is None else f", by people's labels: {scored.calibrated.text}",
        "" if scored.table is not None else " (scored before)",
    )
