"""The rubric of answers, and the answers of a rubric."""

from collections.abc import Sequence

from regrade.answers.sets import AnswerSet
from regrade.judging.criteria import CriteriaSource
from regrade.judging.questions import Judged, check_prompt, check_sides
from regrade.judging.stored import judged_set, stored_answers
from regrade.records.rubrics import open_rubric
from regrade.records.rubrics.facts import judge_run
from regrade.scorers import JUDGE
from regrade.settings import PromptSettings, registry
from regrade.settings.errors import SettingsError, of_setting


def waits_for_judge(answers: AnswerSet) -> bool:
    """Return True if the headline number of these answers comes from a judge."""
    return answers.manifest.scorers[0] == JUDGE and not is_judge_set(answers)


def is_judge_set(answers: AnswerSet) -> bool:
    """Return True if the answers are the verdicts of a judge."""
    return judge_run(answers.manifest.specification) is not None


def default_rubric(benchmark: str) -> str | None:
    """Return the rubric that an installed benchmark names for its judge, or None."""
    if not registry.is_known("benchmark", benchmark):
        return None
    rubric: str | None = getattr(registry.load("benchmark", benchmark), "rubric", None)
    return rubric


def check_asking(
    rubric: str | None,
    benchmarks: Sequence[str] | None,
    prompt: PromptSettings,
    *,
    baseline: str | None,
    criteria: str | None,
) -> None:
    """Check the settings of a judge run before answers are generated.

    Args:
        rubric: Chosen rubric. None: those of the benchmarks.
        benchmarks: Benchmarks whose answers are judged. None: not known yet.
        prompt: Prompt settings of the judge.
        baseline: Other side of the rubric `pairwise`.
        criteria: File with criteria.

    Raises:
        SettingsError: If no benchmark names a rubric and none is given, a rubric or file cannot be read, or a rubric compares two
            answers and no other side is given.
    """
    check_prompt(prompt)
    if criteria is not None:
        CriteriaSource(criteria)
    named = dict.fromkeys(filter(None, map(default_rubric, benchmarks or ())))
    names = tuple(named) if rubric is None else (rubric,)
    with of_setting("`judge.rubric`"):
        rubrics = [open_rubric(name) for name in names]
    for found in rubrics:
        check_sides(found, compares=baseline is not None)
    if benchmarks is not None and not names:
        raise SettingsError(
            f"None of the benchmarks ({', '.join(benchmarks)}) names a rubric for a judge. Give one with `judge.rubric`, or leave out "
            "the judge."
        )


def rubric_of(answers: AnswerSet, asked: str | None) -> str:
    """Return the rubric for answers: the chosen one, or their benchmark's.

    Raises:
        SettingsError: If neither exists, or the answers are verdicts themselves.
    """
    specification = answers.manifest.specification
    name = f"'{specification.answer_set_id}' ({specification.title})"
    if is_judge_set(answers):
        raise SettingsError(
            f"Answer set {name} holds the verdicts of a judge, which are not judged again."
        )
    rubric = asked or default_rubric(specification.benchmark.name)
    if rubric is None:
        raise SettingsError(
            f"Answer set {name}: its benchmark names no rubric for a judge. Give one with `judge.rubric`, such as `correct`."
        )
    return rubric


def judged(answers: AnswerSet, repeats: int | None = None) -> Judged:
    """Return the answers of a stored answer set to judge.

    Args:
        answers: The answer set.
        repeats: Answers to each question to judge. None: all.

    Raises:
        SettingsError: If they are not texts, or their questions are withheld and not on this machine.
        DamagedAnswersError: If they do not match their manifest.
    """
    manifest = answers.manifest
    repeats = repeats or manifest.specification.repeats
    return Judged(
        benchmark=manifest.specification.benchmark.name,
        answers=[*stored_answers(answers, repeats).values()],
        identity=judged_set(answers, repeats),
        withheld=manifest.withheld,
        groups=manifest.groups,
    )
