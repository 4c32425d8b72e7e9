"""Scores that came with imported answers, where they stand in for a scorer's: in comparisons, gates and labels."""

from regrade.answers.result import Result
from regrade.answers.scorefile import ORIGINAL, ScoreFile
from regrade.answers.sets import AnswerSet
from regrade.scoring.score import is_stale
from regrade.settings.errors import SettingsError


def first_scorer(answers: AnswerSet) -> str:
    """Return the scorer that compares with the targets; `original` for imported answers with scores and without targets."""
    if answers.manifest.specification.model.kind != "imported" or not _originals(answers):
        return answers.manifest.scorers[0]
    has_target = any(
        batch["target"].null_count < batch.num_rows for batch in answers.batches(["target"])
    )
    return answers.manifest.scorers[0] if has_target else ORIGINAL


def original_result(answers: AnswerSet) -> Result:
    """Return the main score of the tool that the answers were imported from.

    Raises:
        SettingsError: If they have none.
    """
    return Result(answers, _needed(answers)[0]).read()


def original_results(base: AnswerSet, candidate: AnswerSet) -> tuple[Result, Result]:
    """Return the first score of the baseline's tool that the candidate has, too.

    Raises:
        SettingsError: If a side has no original scores, or they are of other tools or metrics.
    """
    first, second = _needed(base), _needed(candidate)
    for file in first:
        for other in second:
            if _metric(file) == _metric(other):
                return Result(base, file).read(), Result(candidate, other).read()
    raise SettingsError(
        f"The baseline has the original scores {_listed(first)}, the candidate {_listed(second)}: none is of the same tool and "
        "metric. Choose a scorer for both with `--scorer`."
    )


def _originals(answers: AnswerSet) -> list[ScoreFile]:
    """Return original scores of all answers, the main one first."""
    files = [
        file
        for file in answers.scores(f"{ORIGINAL}-")
        if file.original is not None and not is_stale(file, answers)
    ]
    return sorted(files, key=lambda file: file.scored_at, reverse=True)


def _needed(answers: AnswerSet) -> list[ScoreFile]:
    files = _originals(answers)
    if not files:
        raise SettingsError(
            f"Answer set '{answers.manifest.answer_set_id}' ({answers.manifest.specification.title}) has no original scores: its "
            "answers were not imported, or came without scores. Choose a scorer with `--scorer`."
        )
    return files


def _metric(file: ScoreFile) -> tuple[object, ...]:
    original = file.original
    return () if original is None else (original.tool, original.name, original.low, original.high)


def _listed(files: list[ScoreFile]) -> str:
    return ", ".join(
        f"'{o.tool} {o.name}' from {o.low:g} to {o.high:g}" for f in files if (o := f.original)
    )
