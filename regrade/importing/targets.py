"""Targets of imported answers in the form that a scorer compares with, and the scorer that fits them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from regrade.benchmarks.questions.targets import (
    LETTERS,
    RowError,
    letter_target,
    number_target,
    text_target,
    usable_choice_letters,
)
from regrade.importing.base import ImportedRow, ImportedSet
from regrade.importing.files import SourceFile
from regrade.scorers import load_scorer
from regrade.settings import ScorerName


@dataclass(frozen=True, slots=True)
class Targets:
    """Targets of all rows, and the scorer that compares with them."""

    values: list[str | None]
    scorer: ScorerName
    unusable: tuple[ImportedRow, ...]
    """Rows whose target in the file cannot be used; its value here is None."""


def read_targets(file: SourceFile, imported: ImportedSet, wanted: ScorerName | None) -> Targets:
    """Read the targets for the scorer `wanted`; if it is None, for that of the file's format, or the one that fits them.

    A row without a usable target gets None. More than half of the targets must be usable, except with ranked choices,
    where nothing else could be compared with.

    Raises:
        ImportFileError: If most targets do not fit the scorer, or the right choices are ambiguous.
    """
    rows = imported.rows
    wanted = wanted or imported.scorer
    kind = None if wanted is None else load_scorer(wanted).targets
    has_choices = all(2 <= len(row.choices) <= len(LETTERS) for row in rows)
    if imported.method == "rank":
        return _targets(rows, _ranked(rows), wanted or "choice_logprob")
    if all(row.target is None for row in rows):
        return _targets(rows, [None] * len(rows), wanted or "exact")
    if has_choices and kind in (None, "letter"):
        return _targets(rows, _chosen(file, rows), wanted or "choice_letter")
    if kind in (None, "number") and (numbers := _read(file, rows, number_target, wanted)):
        return _targets(rows, numbers, wanted or "number")
    if kind in (None, "letter") and (letters := _read(file, rows, letter_target, wanted)):
        return _targets(rows, letters, wanted or "choice_letter")
    return _targets(rows, _apply(text_target, rows), wanted or "exact")


def _targets(rows: Sequence[ImportedRow], values: list[str | None], scorer: ScorerName) -> Targets:
    pairs = zip(rows, values, strict=True)
    return Targets(values, scorer, tuple(row for row, value in pairs if _is_lost(row, value)))


def _is_lost(row: ImportedRow, value: str | None) -> bool:
    return row.target is not None and value is None


def _ranked(rows: Sequence[ImportedRow]) -> list[str | None]:
    try:
        return _letters(rows)
    except RowError:
        return [None] * len(rows)


def _chosen(file: SourceFile, rows: Sequence[ImportedRow]) -> list[str | None]:
    try:
        return _letters(rows)
    except RowError as error:
        raise file.error(
            f"{error.problem}. Name a scorer that ignores choices, such as `--scorer exact`.",
            rows[error.row].index,
        ) from error


def _letters(rows: Sequence[ImportedRow]) -> list[str | None]:
    return usable_choice_letters([row.target for row in rows], [row.choices for row in rows])


def _read(
    file: SourceFile,
    rows: Sequence[ImportedRow],
    read: Callable[[object], str | None],
    wanted: ScorerName | None,
) -> list[str | None] | None:
    """Values of the targets; None if some cannot be read and no scorer was asked for."""
    values = _apply(read, rows)
    missed = [row for row, value in zip(rows, values, strict=True) if _is_lost(row, value)]
    if not missed:
        return values
    if wanted is None:
        return None
    if 2 * len(missed) < sum(row.target is not None for row in rows):
        return values
    kind = {"number": "a number", "letter": "a letter"}[load_scorer(wanted).targets]
    raise file.error(
        f"the target {missed[0].target!r:.80} is not {kind}, as scorer '{wanted}' needs it.",
        missed[0].index,
    )


def _apply(read: Callable[[object], str | None], rows: Sequence[ImportedRow]) -> list[str | None]:
    return [None if row.target is None else read(row.target) for row in rows]
