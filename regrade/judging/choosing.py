"""The rubric of answers, and the answers of a rubric."""

from regrade import registry
from regrade.answers.sets import AnswerSet
from regrade.errors import SettingsError
from regrade.judging.questions import Judged
from regrade.judging.stored import judged_set, stored_answers
from regrade.rubrics.facts import judge_run
from regrade.scorers import JUDGE


def waits_for_judge(answers: AnswerSet) -> bool:
    """Return True if the headline number of these answers comes from a judge."""
    return answers.manifest.scorers[0] == JUDGE and not is_judge_set(answers)


def is_judge_set(answers: AnswerSet) -> bool:
    """Return True if the answers are the verdicts of a judge."""
    return judge_run(answers.manifest.specification) is not None


def default_rubric(benchmark: str) -> str | None:
    """Return the rubric that an installed benchmark names for its judge, or None."""
    if benchmark not in registry.names("benchmark"):
        return None
    rubric: str | None = getattr(registry.load("benchmark", benchmark), "rubric", None)
    return rubric


def rubric_of(answers: AnswerSet, asked: str | None) -> str:
    """Return the rubric for answers: the one that is asked for, or their benchmark's.

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
            f"Answer set {name}: its benchmark names no rubric for a judge. Give one with `--rubric`, such as `correct`."
        )
    return rubric


def judged(answers: AnswerSet, repeats: int | None = None) -> Judged:
    """Return stored answers as they are judged.

    Args:
        answers: The answer set.
        repeats: Answers to each question to judge. None: all.

    Raises:
        SettingsError: If they are no texts, or their questions are withheld and not at hand.
        DamagedAnswersError: If they do not match their manifest.
    """
    manifest = answers.manifest
    repeats = repeats or manifest.specification.repeats
    return Judged(
        benchmark=manifest.specification.benchmark.name,
        answers=[answer for answer in stored_answers(answers) if answer.repeat < repeats],
        identity=judged_set(answers, repeats),
        withheld=manifest.withheld,
        groups=manifest.groups,
    )
