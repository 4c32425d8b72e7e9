"""Score stored answers at a pinned revision."""

import logging
from dataclasses import dataclass, field

from prefect import task

from regrade.answers.sets import AnswerSet
from regrade.errors import DamagedAnswersError, SettingsError
from regrade.reporting.diffs import diff_line
from regrade.scoring.diff import Diff
from regrade.scoring.diff_sides import diff_with_before
from regrade.scoring.fit import notes
from regrade.scoring.score import Scored, score_answers
from tasks.work import RETRIED

logger = logging.getLogger("regrade.score")


@dataclass
class ScoredSet:
    """An answer set and its scorings."""

    answers: AnswerSet
    scored: list[Scored] = field(default_factory=list)
    diffs: dict[str, Diff] = field(default_factory=dict)
    """Differences between a new scoring and the previous one, by label of the new scoring."""
    errors: dict[str, SettingsError | DamagedAnswersError] = field(default_factory=dict)
    """Reasons for missing scorings, by scorer."""

    @property
    def answer_set_id(self) -> str:
        """Id of the answer set."""
        return self.answers.manifest.answer_set_id

    @property
    def title(self) -> str:
        """Benchmark and model, for log lines and pages."""
        return self.answers.manifest.specification.title


@task(name="score", task_run_name="score {answers.manifest.specification.title}", **RETRIED)
def score_set(
    answers: AnswerSet, scorers: tuple[str, ...], *, force: bool, intact: bool
) -> ScoredSet:
    """Score an answer set with each scorer; a stored scoring by the same version is reused unless `force`.

    If a scorer does not fit or answers are damaged, the error is recorded, and the other scorers go on.
    """
    result = ScoredSet(answers)
    expected = answers.manifest.n_samples * answers.manifest.specification.repeats
    if answers.manifest.rows < expected:
        logger.warning(
            "%s: incomplete; scoring the %d of %d answers that exist",
            result.title,
            answers.manifest.rows,
            expected,
        )
    for name in scorers:
        try:
            scored = score_answers(answers, name, force=force, intact=intact)
        except (SettingsError, DamagedAnswersError) as error:
            logger.warning("%s: not scored with %s: %s", result.title, name, error)
            result.errors[name] = error
            continue
        result.scored.append(scored)
        _log(result.title, scored)
        for note in notes(answers, scored.file):
            logger.warning("%s: %s", result.title, note)
        _compare(result, scored)
    return result


def _log(title: str, scored: Scored) -> None:
    overall = scored.file.summary.overall
    accuracy = "no answers" if overall.accuracy is None else f"{100 * overall.accuracy:.2f} %"
    logger.info(
        "%s: %s %s of %d%s%s",
        title,
        scored.file.scorer,
        accuracy,
        overall.n,
        f", {scored.file.intact_only}" if scored.file.intact_only else "",
        "" if scored.table is not None else " (scored before)",
    )


def _compare(result: ScoredSet, scored: Scored) -> None:
    try:
        diff = diff_with_before(scored)
    except DamagedAnswersError as error:
        logger.warning("%s: not compared with the previous scoring: %s", result.title, error)
        return
    if diff is not None:
        result.diffs[scored.file.label] = diff
        logger.info("%s: %s", result.title, diff_line(diff))
