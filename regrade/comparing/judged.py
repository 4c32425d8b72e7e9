"""Two models under one judge: the same rubric and the same judge, or no comparison."""

from typing import Any, NoReturn

from regrade.answers.manifest import Manifest
from regrade.answers.sets import AnswerSet, readable_sets
from regrade.comparing.likeness import FoundDifference, NotComparableError, differences
from regrade.judging.stored import is_unchanged
from regrade.rubrics.facts import JudgedSet, judge_identity, judge_run
from regrade.rubrics.family import family_warning
from regrade.specification import Specification


def judged_model(specification: Specification) -> str:
    """Return the model of the answers; of a judge run the judged one, not the judge."""
    run = judge_run(specification)
    return specification.model.name if run is None or run.judged is None else run.judged.model


def judged_differences(
    base: AnswerSet, candidate: AnswerSet
) -> tuple[list[FoundDifference], list[str]] | None:
    """Return the differences beside the judged models, and notes, as `differences`; None if no side is a judge run.

    Raises:
        NotComparableError: If only one side is a judge run, rubric, criteria or judge differ, or judged answers were changed since.
    """
    left, right = (judge_run(answers.manifest.specification) for answers in (base, candidate))
    if left is None and right is None:
        return None
    if left is None or right is None:
        _refuse("one side has verdicts of a judge, the other has answers")
    if left.rubric.sha256 != right.rubric.sha256:
        same = left.rubric.name == right.rubric.name
        rubrics = f"two versions of rubric '{left.rubric.name}'"
        if not same:
            rubrics = f"rubric '{left.rubric.name}' and rubric '{right.rubric.name}'"
        _refuse(f"the sides were judged by {rubrics}; judge both by one")
    if left.criteria != right.criteria:
        _refuse("the sides were judged by different lists of criteria; judge both by one")
    _check_judges(base.manifest.specification, candidate.manifest.specification)
    if left.baseline != right.baseline:
        _refuse("the sides were compared with different baselines")
    found, notes = differences(_without_facts(base.manifest), _without_facts(candidate.manifest))
    warnings = (family_warning(a.manifest.specification) for a in (base, candidate))
    notes.extend(warning for warning in warnings if warning is not None)
    judged = _judged_set(base, left.judged), _judged_set(candidate, right.judged)
    if judged[0] is None or judged[1] is None:
        notes.append(
            "The judged answers are not in this repository: only the verdicts were compared."
        )
        return found, notes
    of_answers, more = differences(judged[0].manifest, judged[1].manifest)
    return [*found, *of_answers], [*notes, *more]


def _refuse(problem: str) -> NoReturn:
    raise NotComparableError([problem], ())


def _check_judges(base: Specification, candidate: Specification) -> None:
    """Refuse two judges, or one with two kinds of sampling, prompts or engine settings."""
    left, right = judge_identity(base), judge_identity(candidate)
    names = [f"'{side.model.name}' at {side.model.revision[:12]}" for side in (base, candidate)]
    if left.model != right.model:
        _refuse(f"the sides were judged by {names[0]} and by {names[1]}; judge both by one")
    parts = zip(left._fields, left, right, strict=True)
    if differing := [name for name, old, new in parts if old != new]:
        _refuse(
            f"the sides were judged by {names[0]}, but with different {' and '.join(differing)} settings; judge both alike"
        )


def _without_facts(manifest: Manifest) -> Manifest:
    """Return the manifest of a judge run without what names the judged answers."""
    specification = manifest.specification
    changes: dict[str, Any] = {
        "parameters": {},
        "source": "",
        "source_revision": "",
        "config": None,
    }
    benchmark = specification.benchmark.model_copy(update=changes)
    alike = specification.model_copy(update={"benchmark": benchmark})
    return manifest.model_copy(update={"specification": alike})


def _judged_set(answers: AnswerSet, judged: JudgedSet | None) -> AnswerSet | None:
    """Return the answers that a judge run is about; None if they are not in its repository.

    Raises:
        NotComparableError: If they were changed since they were judged.
    """
    if judged is None:
        return None
    sets, _ = readable_sets(answers.repository, answers.revision)
    fitting = [found for found in sets if found.manifest.answer_set_id == judged.answer_set_id]
    if fitting and not is_unchanged(fitting[0], judged):
        _refuse(
            f"answer set '{judged.answer_set_id}' of '{judged.model}' was changed since judge run "
            f"'{answers.manifest.answer_set_id}'; judge it again"
        )
    return fitting[0] if fitting else None
