"""Answer sets that a run generates and does not score."""

import logging
from collections.abc import Sequence

from regrade.answers.sets import AnswerSet
from regrade.orchestration import artifacts
from regrade.orchestration.naming import name_run
from regrade.reporting.display import current_display
from regrade.reporting.results import AnswerSetResult, Evaluation, check_answered
from tasks.work import Work

logger = logging.getLogger("regrade")
SCORED_ELSEWHERE = "The machine whose answers completed it scores it"
"""Message of a run whose answer sets another machine completed."""


def is_to_be_scored(answers: AnswerSet, works: Sequence[Work]) -> bool:
    """Return True if this run has the last word on an answer set; logs who has, if it is another machine."""
    answer_set_id = answers.manifest.answer_set_id
    (work,) = (w for w in works if w.plan.specification.answer_set_id == answer_set_id)
    if work.ends_here:
        return True
    if answers.manifest.state == "complete":
        logger.info("%s: complete. %s; `regrade score` does the same", work.title, SCORED_ELSEWHERE)
    return False


def unscored(works: Sequence[Work]) -> Evaluation:
    """Return the answer sets of a run that scores none."""
    return Evaluation(
        answer_sets=tuple(_unscored(work) for work in works), repository=works[0].repository.uri
    )


def finish_unscored(works: Sequence[Work]) -> Evaluation:
    """Show the answer sets of a run that scores none on the terminal and on its page, and return them.

    Raises:
        SomeUnansweredError: If an answer is missing that could be generated.
    """
    evaluation = unscored(works)
    current_display().finished(evaluation)
    artifacts.report(evaluation)
    check_answered(evaluation)
    name_run(evaluation)
    return evaluation


def _unscored(work: Work) -> AnswerSetResult:
    published, progress = work.published, work.progress
    sessions = published.manifest.sessions if published else ()
    prompt_tokens = sum(session.prompt_tokens for session in sessions)
    completion_tokens = sum(session.completion_tokens for session in sessions)
    stages = {
        "load": work.load_seconds,
        "generate": work.generate_seconds,
        "publish": work.publish_seconds,
    }
    return AnswerSetResult(
        benchmark=work.plan.specification.benchmark.name,
        model=work.plan.specification.model.name,
        model_revision=work.plan.specification.model.revision,
        answer_set_id=work.plan.specification.answer_set_id,
        revision=published.revision if published else None,
        url=work.repository.url(published.revision, published.folder) if published else None,
        rows=published.manifest.rows if published else 0,
        expected_rows=work.plan.rows,
        failed=published.manifest.failed if published else 0,
        refused=published.manifest.refused if published else 0,
        repeats=work.plan.specification.repeats,
        generated=progress.new if progress else 0,
        seconds={stage: seconds for stage, seconds in stages.items() if seconds},
        tokens_per_second=progress.tokens_per_second if progress and progress.new else None,
        speed=work.speed,
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        cost=None if work.price is None else work.price.cost(prompt_tokens, completion_tokens),
    )
