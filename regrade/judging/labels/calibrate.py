"""Stored labels of a stored scoring, and those of other answers under the same judge and rubric."""

from collections.abc import Callable, Iterator

from regrade.answers.result import Result
from regrade.judging.labels.calibrated import Calibrated, Labelled, calibrated, why_not
from regrade.judging.labels.items import Verdicts, verdicts_of
from regrade.judging.labels.scheme import further_fields, scheme_of
from regrade.judging.labels.stored import labelled_judge_runs, stored_labels
from regrade.records.rubrics.facts import judge_identity, judge_run
from regrade.settings.errors import DamagedAnswersError


def calibrate(
    scored: Result, *, on_damage: Callable[[DamagedAnswersError], object] = lambda _: None
) -> Calibrated | None:
    """Return a scoring calibrated by labels, with the further fields of its verdicts.

    None if no judge gave it and nobody labelled its answers.

    A scoring whose labels or scores are damaged is uncalibrated, with the damage as the reason.

    Args:
        scored: The scoring.
        on_damage: Called with the damage.
    """
    try:
        found = _calibrate(scored)
        if found is None:
            return None
        names = further_fields(judge_run(scored.answers.manifest.specification), scored.file.scorer)
        fields = {name: _calibrate(scored, name) for name in names}
        return found.with_fields({name: of for name, of in fields.items() if of is not None})
    except DamagedAnswersError as error:
        on_damage(error)
        return Calibrated(scale=scored.file.scale, reason=str(error))


def _calibrate(scored: Result, field: str | None = None) -> Calibrated | None:
    answers = scored.answers
    run = judge_run(answers.manifest.specification)
    scale = scheme_of(run, scored.file.scale, field).scale
    labels = stored_labels(answers, scale, field)
    if run is None and not labels.latest:
        return None
    if not labels.latest and next(labelled_judge_runs(answers), None) is None:
        return Calibrated(scale=scale, reason=why_not(labels))  # without reading the scores
    verdicts = verdicts_of(scored, field)
    return calibrated(verdicts, labels, labelled_elsewhere(verdicts))


def labelled_elsewhere(verdicts: Verdicts) -> Iterator[Labelled]:
    """Yield labelled verdicts of the same judge, rubric, criteria and scorer on other answers to the same benchmark."""
    answers, run = verdicts.answers, verdicts.run
    if run is None or run.judged is None:
        return
    judge = judge_identity(answers.manifest.specification.as_told)
    for other, found, same_answers in labelled_judge_runs(answers):
        same_judge = judge_identity(other.manifest.specification.as_told) == judge
        same_rubric = found.rubric.sha256 == run.rubric.sha256 and found.criteria == run.criteria
        benchmark = found.judged and found.judged.benchmark
        if same_answers or not same_judge or not same_rubric or benchmark != run.judged.benchmark:
            continue
        for scoring in other.scores(verdicts.scoring):
            if scoring.label == verdicts.scoring:
                theirs = verdicts_of(Result(other, scoring), verdicts.field)
                yield theirs, stored_labels(other, verdicts.scheme.scale, verdicts.field)
