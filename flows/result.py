"""Result of a run that scored answer sets: shown on the terminal and on the run's page, and returned.

Imports Prefect only within a flow run.
"""

from flows.scoring import Scorings
from regrade.answers.figures import figures_of
from regrade.records.rubrics.facts import answers_per_question, judge_run
from regrade.results.display import current_display
from regrade.results.results import (
    AnswerSetResult,
    Evaluation,
    NotScored,
    SomeNotScoredError,
    SomeUnfitError,
    score_result,
)
from regrade.settings.errors import DamagedAnswersError
from tasks.score import ScoredSet
from tasks.step import in_flow_run


def report(scorings: Scorings) -> Evaluation:
    """Show the result on the terminal and the run's page, and return it.

    Raises:
        SomeUnfitError: If a scorer did not fit an answer set; raised after the result is shown.
        SomeNotScoredError: If answers are damaged; raised after the result is shown.
    """
    evaluation = Evaluation(
        answer_sets=tuple(
            _result(entry, scorings)
            for entry in scorings.sets
            if entry.scored or (entry.answer_set_id in scorings.works and not entry.errors)
        ),
        not_scored=(
            *(
                NotScored(answer_set=error.path, reason=error.problem, damaged=True)
                for error in scorings.damaged
            ),
            *(_not_scored(entry, name) for entry in scorings.sets for name in entry.errors),
        ),
        panels=tuple(scorings.panels),
        repository=scorings.uri,
        tracking_uri=scorings.tracking_uri,
    )
    current_display().finished(evaluation)
    if in_flow_run():
        from regrade.orchestration import artifacts  # noqa: PLC0415 - `regrade score` need not import Prefect

        artifacts.report(evaluation)
        artifacts.report_diffs(
            [scored.change.diff for scored in scorings.scored if scored.change is not None]
        )
    if evaluation.not_scored and scorings.tracking_error is None:
        is_damaged = any(entry.damaged for entry in evaluation.not_scored)
        raise (SomeNotScoredError if is_damaged else SomeUnfitError)(evaluation)
    return evaluation


def _not_scored(scored_set: ScoredSet, scorer: str) -> NotScored:
    error = scored_set.errors[scorer]
    return NotScored(
        answer_set=scored_set.answer_set_id,
        title=scored_set.title,
        scorer=scorer,
        reason=str(error),
        damaged=isinstance(error, DamagedAnswersError),
    )


def _result(scored_set: ScoredSet, scorings: Scorings) -> AnswerSetResult:
    answers, answer_set_id = scored_set.answers, scored_set.answer_set_id
    manifest = answers.manifest
    scores = tuple(
        score_result(
            scored,
            scorings.tracked.run_ids.get((answer_set_id, scored.file.label)),
            scored.calibrated,
            scored.bias,
        )
        for scored in scored_set.scored
    )
    work = scorings.works.get(answer_set_id)
    generated = work.progress.new if work and work.progress else 0
    run = judge_run(manifest.specification)
    return AnswerSetResult(
        benchmark=manifest.specification.benchmark.name,
        model=manifest.specification.model.name,
        model_revision=manifest.specification.model.revision,
        answer_set_id=answer_set_id,
        revision=scorings.revision,
        url=answers.repository.url(scorings.revision, answers.folder),
        rows=manifest.rows,
        expected_rows=manifest.expected,
        failed=manifest.failed,
        refused=manifest.refused,
        repeats=answers_per_question(manifest.specification),
        generated=generated,
        scores=scores,
        mlflow_run_id=next((score.mlflow_run_id for score in scores if score.headline), None),
        mlflow_url=scorings.tracked.urls.get(answer_set_id),
        report_url=scorings.report_urls.get(answer_set_id),
        seconds=_seconds_now(scored_set, scorings),
        tokens_per_second=work.progress.tokens_per_second
        if generated and work and work.progress
        else None,
        prompt_tokens=manifest.totals.prompt_tokens,
        completion_tokens=manifest.totals.completion_tokens,
        figures=figures_of(manifest, next((s.file for s in scored_set.scored if s.headline), None)),
        cost=scorings.cost(answers),
        judged=run.judged.model if run is not None and run.judged is not None else None,
        speed=work.speed if work else None,
    )


def _seconds_now(scored_set: ScoredSet, scorings: Scorings) -> dict[str, float]:
    """Return the seconds of the stages of this run; what earlier runs did takes none."""
    new = [scored.file.score_seconds for scored in scored_set.scored if scored.table is not None]
    work = scorings.works.get(scored_set.answer_set_id)
    stages = {
        "load": work.load_seconds if work else 0.0,
        "generate": work.generate_seconds if work else 0.0,
        "publish": work.publish_seconds if work else 0.0,
        "score": sum(new),
        "track": scorings.track_seconds,
    }
    return {stage: seconds for stage, seconds in stages.items() if seconds}
