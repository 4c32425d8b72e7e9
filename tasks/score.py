"""Score stored answers at a pinned revision."""

import logging
from dataclasses import dataclass, field

from prefect import task

from regrade.answers.sets import AnswerSet
from regrade.errors import DamagedAnswersError, SettingsError
from regrade.reporting.diffs import diff_line
from regrade.scoring.diff import Diff
from regrade.scoring.diff_sides import diff_with_before
from regrade.scoring.score import Scored, score_answers
from tasks.work import RETRIED

logger = logging.getLogger("regrade.score")


@dataclass
class ScoredSet:
    """An answer set and its scorings."""

    answers: AnswerSet
    scored: list[Scored] = field(default_factory=list)
    diffs: dict[str, Diff] = field(default_factory=dict)
    """How a new scoring differs from the one before, by label of the new one."""
    errors: dict[str, SettingsError | DamagedAnswersError] = field(default_factory=dict)
    """By scorer: why there is no scoring."""

    @property
    def answer_set_id(self) -> str:
        """Id of the answer set."""
        return self.answers.manifest.answer_set_id

    @property
    def title(self) -> str:
        """Benchmark and model, for people."""
        return self.answers.manifest.specification.title


@task(name="score", task_run_name="score {answers.manifest.specification.title}", **RETRIED)
def score_set(
    answers: AnswerSet, scorers: tuple[str, ...], *, force: bool, intact: bool
) -> ScoredSet:
    """Score an answer set with each scorer; a scoring by the same version of a scorer is reused unless `force`.

    If a scorer does not fit, or answers are damaged, that is noted, and the other scorers go on.
    """
    found = ScoredSet(answers)
    expected = answers.manifest.n_samples * answers.manifest.specification.repeats
    if answers.manifest.rows < expected:
        logger.warning(
            "%s: incomplete, %d of %d answers are there; scoring those",
            found.title,
            answers.manifest.rows,
            expected,
        )
    for name in scorers:
        try:
            one = score_answers(answers, name, force=force, intact=intact)
        except (SettingsError, DamagedAnswersError) as error:
            logger.warning("%s: not scored with %s: %s", found.title, name, error)
            found.errors[name] = error
            continue
        found.scored.append(one)
        _say(found.title, one)
        _compare(found, one)
    return found


def _say(title: str, one: Scored) -> None:
    overall = one.file.summary.overall
    shown = "no answers" if overall.accuracy is None else f"{100 * overall.accuracy:.2f} %"
    logger.info(
        "%s: %s %s of %d%s%s",
        title,
        one.file.scorer,
        shown,
        overall.n,
        f", {one.file.intact_only}" if one.file.intact_only else "",
        "" if one.table is not None else " (scored before)",
    )


def _compare(found: ScoredSet, one: Scored) -> None:
    try:
        diff = diff_with_before(one)
    except DamagedAnswersError as error:
        logger.warning("%s: not compared with the scoring before: %s", found.title, error)
        return
    if diff is not None:
        found.diffs[one.file.label] = diff
        logger.info("%s: %s", found.title, diff_line(diff))
