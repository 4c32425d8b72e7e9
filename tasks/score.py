"""Score stored answers at a pinned revision."""

import logging

from prefect import task
from prefect.cache_policies import NO_CACHE

from regrade.answers.sets import AnswerSet
from regrade.errors import DamagedAnswersError, SettingsError
from regrade.reporting.diffs import diff_line
from regrade.reporting.results import NotScored
from regrade.scoring.diff import Diff
from regrade.scoring.diff_sides import diff_with_before
from regrade.scoring.score import Scored, score_answers
from tasks.retries import may_pass

logger = logging.getLogger("regrade.score")


class ToScore:
    """An answer set and the scorers to run over it. Plain class: see `Work`."""

    def __init__(
        self, answers: AnswerSet, scorers: tuple[str, ...], *, force: bool, intact: bool
    ) -> None:
        self.answers = answers
        self.scorers = scorers
        self.force = force
        self.intact = intact
        self.scored: list[Scored] = []
        self.diffs: dict[str, Diff] = {}
        """By label of the new scoring: how it differs from the one before."""
        self.not_scored: list[NotScored] = []
        self.errors: list[SettingsError | DamagedAnswersError] = []

    @property
    def title(self) -> str:
        """Benchmark and model, as people say it."""
        specified = self.answers.manifest.specification
        return f"{specified.benchmark.name} · {specified.model.name}"


@task(
    name="score",
    task_run_name="score {work.title}",
    cache_policy=NO_CACHE,
    retries=3,
    retry_delay_seconds=[2, 10, 30],
    retry_condition_fn=may_pass,
)
def score(work: ToScore) -> ToScore:
    """Score an answer set with each of its scorers; what was scored before by the very same scorer is kept.

    A scorer that does not fit, or damaged answers, are noted: they take nothing from other scorings.
    """
    manifest = work.answers.manifest
    expected = manifest.n_samples * manifest.specification.repeats
    if manifest.rows < expected:
        logger.warning(
            "%s: incomplete, %d of %d answers are there; scoring those",
            work.title,
            manifest.rows,
            expected,
        )
    work.scored, work.not_scored, work.errors = [], [], []  # of a try before this one
    for name in work.scorers:
        try:
            one = score_answers(work.answers, name, force=work.force, intact=work.intact)
        except (SettingsError, DamagedAnswersError) as error:
            _note(work, name, error)
            continue
        work.scored.append(one)
        _say(work, one)
        _compare(work, one)
    return work


def _note(work: ToScore, scorer: str, error: SettingsError | DamagedAnswersError) -> None:
    logger.warning("%s: not scored with %s: %s", work.title, scorer, error)
    damaged = isinstance(error, DamagedAnswersError)
    answer_set_id = work.answers.manifest.answer_set_id
    noted = NotScored(
        answer_set=answer_set_id,
        title=work.title,
        scorer=scorer,
        reason=str(error),
        damaged=damaged,
    )
    work.not_scored.append(noted)
    work.errors.append(error)


def _say(work: ToScore, one: Scored) -> None:
    overall = one.file.summary.overall
    shown = "no answers" if overall.accuracy is None else f"{100 * overall.accuracy:.2f} %"
    logger.info(
        "%s: %s %s of %d%s%s",
        work.title,
        one.file.scorer,
        shown,
        overall.n,
        f", {one.file.intact_only}" if one.file.intact_only else "",
        "" if one.table is not None else " (scored before)",
    )


def _compare(work: ToScore, one: Scored) -> None:
    try:
        diff = diff_with_before(one)
    except DamagedAnswersError as error:
        logger.warning("%s: not compared with the scoring before: %s", work.title, error)
        return
    if diff is not None:
        work.diffs[one.file.label] = diff
        logger.info("%s: %s", work.title, diff_line(diff))
