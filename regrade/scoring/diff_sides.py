"""Select the two scorings that `regrade diff` compares."""

import re

from regrade.answers.result import Result
from regrade.answers.scorefile import ScoreFile
from regrade.answers.sets import AnswerSet
from regrade.scorers import is_known, scorer_names, stored_name
from regrade.scoring.diff import Diff, compare
from regrade.scoring.score import label_of, score_answers
from regrade.settings import ScoringOptions
from regrade.settings.errors import SettingsError
from regrade.settings.registry import called

_AT_VERSION = re.compile(r"(?P<scorer>[a-z0-9_]+)@v?(?P<version>[0-9]{1,9})")


def diff_scorings(
    answers: AnswerSet,
    before: str | None,
    after: str | None,
    *,
    subset: str | None = None,
    examples: int = 3,
    options: ScoringOptions | None = None,
) -> Diff:
    """Compare two scorings of an answer set.

    A scoring that is not stored is computed over the answers of the other scoring, and is not stored.

    Args:
        answers: Answer set at a pinned revision.
        before: Label of a stored scoring; `scorer@version` for the newest stored scoring of that version; or name of
            a scorer for its newest stored scoring other than `after`, else its current version. None: the scorer of
            `after`. A scorer may be `path/to/file.py:name`.
        after: Label or `scorer@version` as above, or name of a scorer for its current version. None: the scorer of
            `before`, else the benchmark's first scorer, or the one just used if that is not the benchmark's.
        subset: Subset to compare. None: all answers.
        examples: Largest number of examples of each kind of change.
        options: How a scoring that is not stored is computed, where it needs processes or a sandbox.

    Raises:
        SettingsError: If a scoring does not exist, both are the same, or they are of different answers.
        DamagedAnswersError: If stored answers or scores are damaged.
    """
    before, after = (name and stored_name(name) for name in (before, after))
    files = sorted(answers.scores(), key=lambda file: file.scored_at)
    if before is None and after is None:
        after = _just_used(answers, files)
    newer = _stored(answers, files, after)
    older = _stored(answers, files, before)
    name = after or (older.scorer if older else before) or ""
    if newer is None and not is_known(name):  # such as imported scores of another tool
        name = answers.manifest.scorers[0]
    label = newer.label if newer else label_of(name, options)
    if older is None:
        scorer = before or (newer.scorer if newer else name)
        others = [file for file in files if file.scorer == scorer and file.label != label]
        if others:
            older = others[-1]
        elif not any(file.scorer == scorer for file in files) and before is None:
            set_id = answers.manifest.answer_set_id
            raise SettingsError(
                f"Answer set '{set_id}' has no stored scoring by '{scorer}' to compare '{label}' with: "
                f"{answers.manifest.to_score()}. `--baseline` names another. {_known(files)}"
            )
        elif before is None or label_of(before, options) == label:
            changed = (
                ""
                if called(scorer)[0] in scorer_names()
                else f"If its file has changed, `--to FILE.py:{scorer}` compares with that. "
            )
            raise SettingsError(
                f"There is nothing to compare with '{label}': it is the only scoring by '{scorer}' of answer set "
                f"'{answers.manifest.answer_set_id}'. {changed}{_known(files)}"
            )
    first = Result(answers, older) if older else None
    second = Result(answers, newer) if newer else None
    part = answers.only(second.file.answers) if second else answers
    first = first or score_answers(part, str(before), options=options)
    second = second or score_answers(answers.only(first.file.answers), name, options=options)
    return compare(
        answers,
        (first.file, first.scores),
        (second.file, second.scores),
        stored=(first.table is None, second.table is None),
        subset=subset,
        examples=examples,
    )


def earlier_scoring(scored: Result) -> ScoreFile | None:
    """Return the newest earlier scoring of the same answers by the same scorer, if the given scoring is new."""
    if scored.table is None:
        return None
    earlier = [
        file
        for file in scored.answers.intact_scores()
        if file.scorer == scored.file.scorer
        and file.label != scored.file.label
        and set(file.answers) == set(scored.file.answers)
    ]
    return max(earlier, key=lambda file: file.scored_at, default=None)


def diff_with_before(scored: Result) -> Diff | None:
    """Compare a new scoring with the `earlier_scoring`; None if there is none.

    Raises:
        DamagedAnswersError: If the earlier scoring is damaged.
    """
    earlier = earlier_scoring(scored)
    if earlier is None or scored.table is None:
        return None
    table = scored.answers.score_table(earlier)
    return compare(scored.answers, (earlier, table), (scored.file, scored.table), examples=3)


def _stored(answers: AnswerSet, files: list[ScoreFile], name: str | None) -> ScoreFile | None:
    """Return the stored scoring called `name`, or None if it is the name of a scorer."""
    if name is None or is_known(name):
        return None
    match = _AT_VERSION.fullmatch(name)
    fitting = [
        file
        for file in files
        if name in (file.label, file.scorer)
        or (match and (file.scorer, file.version) == (match["scorer"], int(match["version"])))
    ]
    if not fitting:
        raise SettingsError(
            f"Answer set '{answers.manifest.answer_set_id}' has no scoring '{name}'. {_known(files)}"
        )
    return fitting[-1]


def _just_used(answers: AnswerSet, files: list[ScoreFile]) -> str | None:
    """Return the scorer of the newest scoring, if none of the benchmark's and it replaced another or they scored nothing; else None."""
    own = [file for file in files if file.original is None]
    if not own or own[-1].scorer in answers.manifest.scorers:
        return None
    newest = own[-1]
    replaced = any(file.label != newest.label for file in own if file.scorer == newest.scorer)
    if not replaced and any(file.scorer in answers.manifest.scorers for file in own):
        return None
    return newest.scorer if is_known(newest.scorer) else newest.label


def _known(files: list[ScoreFile]) -> str:
    labels = ", ".join(f"'{file.label}'" for file in files) or "none"
    return f"Stored: {labels}. Scorers: {', '.join(scorer_names())}."
