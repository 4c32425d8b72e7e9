"""Judge runs, and the judged answers."""

from typing import Literal

from regrade.answers.base import Repository
from regrade.answers.sets import AnswerSet, list_sets
from regrade.judging.stored import JudgedAnswer, is_unchanged, judge_runs, stored_answers
from regrade.records.rubrics.facts import JudgeRun, judge_run
from regrade.settings.errors import RepositoryError, SettingsError

Side = Literal["judged", "baseline"]


def run_of(judge_set: AnswerSet) -> JudgeRun:
    """Return the facts of a judge run.

    Raises:
        SettingsError: If the answers are not verdicts of a judge.
    """
    manifest = judge_set.manifest
    run = judge_run(manifest.specification)
    if run is None:
        raise SettingsError(
            f"Answer set '{manifest.answer_set_id}' ({manifest.specification.title}) holds no verdicts of a judge. Name one that "
            "`regrade judge` made."
        )
    return run


def judge_sets_of(repository: Repository, revision: str, answer_set_id: str) -> list[AnswerSet]:
    """Return the judge runs on an answer set, oldest first; see `judge_runs`."""
    return [
        answers
        for answers, run in judge_runs(repository, revision)
        if run.judged is not None and run.judged.answer_set_id == answer_set_id
    ]


def judged_answers(
    judge_set: AnswerSet, *, side: Side = "judged"
) -> dict[tuple[str, int], JudgedAnswer]:
    """Return the judged answers of a judge run, by sample id and repeat.

    Args:
        judge_set: The judge run.
        side: Of a pairwise run also the answers of the baseline.

    Raises:
        SettingsError: If the run has no such side, or the answers were changed since they were judged.
        RepositoryError: If the repository does not have the answers.
        DamagedAnswersError: If they do not match their manifest.
    """
    return stored_answers(*judged_answer_set(judge_set, side=side))


def judged_answer_set(judge_set: AnswerSet, *, side: Side = "judged") -> tuple[AnswerSet, int]:
    """Return the judged answers of a judge run as they are stored, and the number of judged repeats.

    Args and errors: as `judged_answers`.
    """
    run = run_of(judge_set)
    identity = run.judged if side == "judged" else run.baseline
    if identity is None:
        raise SettingsError(
            f"Judge run '{judge_set.manifest.answer_set_id}' has no {side} answers in a repository."
        )
    source = judge_set.repository
    head = source.head()
    if head is None:
        raise RepositoryError(source.uri, "it holds no answers.")
    [answers] = list_sets(source, head, answer_set_id=identity.answer_set_id)
    if not is_unchanged(answers, identity):
        raise SettingsError(
            f"Answer set '{identity.answer_set_id}' was changed since it was judged. Judge it again: verdicts on other answers "
            "do not apply."
        )
    return answers, identity.repeats
