"""Which two scorings of an answer set are compared: stored ones, or the scorer as it is now."""

import re
from dataclasses import dataclass

import pyarrow as pa

from regrade.answers.scorefile import ScoreFile
from regrade.answers.sets import AnswerSet
from regrade.errors import SettingsError
from regrade.scorers import scorer_names
from regrade.scoring.diff import Diff, compare
from regrade.scoring.score import Scored, label_of, score_answers

_AT_VERSION = re.compile(r"(?P<scorer>[a-z0-9_]+)@v?(?P<version>[0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class _Chosen:
    file: ScoreFile
    table: pa.Table
    stored: bool


def diff_scorings(
    answers: AnswerSet,
    before: str | None,
    after: str | None,
    *,
    subset: str | None = None,
    examples: int = 3,
) -> Diff:
    """Compare two scorings of an answer set.

    What is scored for the comparison is scored over the answers of the other side, and not kept.

    Args:
        answers: Answer set at a pinned revision.
        before: Label of a stored scoring; `scorer@version` for the newest stored one of that version; a scorer's
            name for its newest stored one that is not `after`, or if there is none for the scorer as it is now.
            None: the name of the scorer of `after`.
        after: Label or `scorer@version` as above; a scorer's name for the scorer as it is now. None: the name of
            the scorer of `before`, else the first of the benchmark's scorers.
        subset: Only answers of this subset.
        examples: Of each kind of change, at most this many.

    Raises:
        SettingsError: If there are no two such scorings, or they are of different answers.
        DamagedAnswersError: If what is stored is not what it should be.
    """
    files = sorted(answers.scores(), key=lambda file: file.scored_at)
    newer = _stored(answers, files, after)
    older = _stored(answers, files, before)
    name = after or (older.scorer if older else before) or ""
    if newer is None and name not in scorer_names():  # such as the score that another tool gave
        name = answers.manifest.scorers[0]
    label = newer.label if newer else label_of(name)
    if older is None:
        wanted = before or (newer.scorer if newer else name)
        others = [file for file in files if file.scorer == wanted and file.label != label]
        if others:
            older = others[-1]
        elif before is None or label_of(before) == label:
            raise SettingsError(
                f"There is nothing to compare with '{label}': it is the only scoring by '{wanted}' of answer set "
                f"'{answers.manifest.answer_set_id}'. {_known(files)}"
            )
    first = _read(answers, older) if older else None
    second = _read(answers, newer) if newer else None
    first = first or _scored(answers.only(second.file.answers) if second else answers, str(before))
    second = second or _scored(answers.only(first.file.answers), name)
    return compare(
        answers,
        (first.file, first.table),
        (second.file, second.table),
        stored=(first.stored, second.stored),
        subset=subset,
        examples=examples,
    )


def diff_with_before(scored: Scored, *, examples: int = 3) -> Diff | None:
    """Compare a new scoring with the newest other one that its scorer made of the same answers; None if there is none.

    Raises:
        DamagedAnswersError: If that scoring is not what it should be.
    """
    if scored.table is None:
        return None
    before = [
        file
        for file in scored.answers.readable_scores()
        if file.scorer == scored.file.scorer
        and file.label != scored.file.label
        and set(file.answers) == set(scored.file.answers)
    ]
    if not before:
        return None
    newest = max(before, key=lambda file: file.scored_at)
    table = scored.answers.score_table(newest.label)
    return compare(scored.answers, (newest, table), (scored.file, scored.table), examples=examples)


def _stored(answers: AnswerSet, files: list[ScoreFile], asked: str | None) -> ScoreFile | None:
    """Return the stored scoring that is named, or None where a scorer is."""
    if asked is None or asked in scorer_names():
        return None
    match = _AT_VERSION.fullmatch(asked)
    fitting = [
        file
        for file in files
        if asked in (file.label, file.scorer)
        or (match and (file.scorer, file.version) == (match["scorer"], int(match["version"])))
    ]
    if not fitting:
        raise SettingsError(
            f"Answer set '{answers.manifest.answer_set_id}' has no scoring '{asked}'. {_known(files)}"
        )
    return fitting[-1]


def _known(files: list[ScoreFile]) -> str:
    labels = ", ".join(f"'{file.label}'" for file in files) or "none"
    return f"Stored: {labels}. Scorers: {', '.join(scorer_names())}."


def _read(answers: AnswerSet, file: ScoreFile) -> _Chosen:
    return _Chosen(file, answers.score_table(file.label), True)


def _scored(answers: AnswerSet, name: str) -> _Chosen:
    scored = score_answers(answers, name)
    if scored.table is None:
        return _read(answers, scored.file)
    return _Chosen(scored.file, scored.table, False)
