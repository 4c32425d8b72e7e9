"""Sheets: CSV files in which people label answers, with any spreadsheet."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from regrade.judging.labels.sampling import Key
from regrade.judging.labels.stored import Label
from regrade.judging.labels.task import Item, LabelTask
from regrade.records.patterns import compiled
from regrade.settings.errors import SettingsError
from regrade.settings.files import atomic_write
from regrade.text.text import common_length

KEYS = ("sample_id", "repeat")
COLUMNS = (*KEYS, "seed", "question", "target", "answer")
LABEL, RATER, VERDICT, VIEW = "label", "rater", "verdict", "view"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters of a cell that a spreadsheet would compute."""
_FORMULA_WITHIN = compiled(r"[\r\n;\t][ \t]*[=+\-@]")
"""Places in a cell where one begins for a spreadsheet that separates cells by semicolons or tabs, as its country does."""
_LONGEST_CELL = 32_000
"""Characters above which a spreadsheet may have cut a cell."""
_MAX_FIELD = 128 * 2**20
_SHOWN_PROBLEMS = 5


@dataclass(frozen=True, slots=True)
class SheetRow:
    """A label in a sheet: of a row, or of one of its label columns if verdicts have several fields."""

    given: Label
    field: str | None
    """Field of the verdict; None for the first."""
    seed: int | None


def refused(place: str, problems: Sequence[str]) -> SettingsError:
    """Return the error of labels that cannot be used; it names the first rows with a problem."""
    return SettingsError(f"Labels in '{place}' were not read, none of them: {first_of(problems)}.")


def first_of(problems: Sequence[str]) -> str:
    """Return the first problems, and the number of the others."""
    more = len(problems) - _SHOWN_PROBLEMS
    further = f"; and {more:,} more" if more > 0 else ""
    return "; ".join(problems[:_SHOWN_PROBLEMS]) + further


def column_of(name: str, task: LabelTask) -> str:
    """Return the column of a field: `label`, or `label_style` if verdicts have several fields."""
    return f"{name}_{task.name}" if task.name else name


def write_sheet(
    path: Path, tasks: Sequence[LabelTask], items: Iterable[Item], seed: int, *, show_verdict: bool
) -> int:
    """Write answers to label as CSV and return their number.

    The verdicts are left out by default: people who see a verdict tend to agree with it.

    Args:
        path: File to write; it must not exist.
        tasks: The answers, once for each field of the verdicts.
        items: Answers in the order in which people should label them.
        seed: Seed of that order.
        show_verdict: Add the verdict of the scoring.

    Raises:
        SettingsError: If the file exists or cannot be written.
    """
    if path.exists():
        raise SettingsError(f"'{path}' exists. Choose another name, so that no labels are lost.")
    rows = [
        {
            "sample_id": item.key[0],
            "repeat": str(item.key[1]),
            "seed": str(seed),
            "question": item.question or "",
            "target": item.target or "",
            "answer": item.answer,
            **{column_of(VERDICT, task): _verdict(task.items[item.key]) for task in tasks},
            RATER: "",
            VIEW: tasks[0].address(item.key) or "",
        }
        for item in items
    ]
    verdicts = [column_of(VERDICT, task) for task in tasks if show_verdict]
    labels = [column_of(LABEL, task) for task in tasks]
    columns = [*COLUMNS, *verdicts, *labels, RATER]
    columns += [VIEW] if any(row[VIEW] for row in rows) else []
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, restval="", extrasaction="ignore")
    writer.writeheader()
    writer.writerows({name: _guarded(value) for name, value in row.items()} for row in rows)
    try:
        with atomic_write(path) as file:
            file.write(text.getvalue().encode("utf-8-sig"))  # Excel takes other files for latin-1
    except OSError as error:
        raise SettingsError(f"'{path}' cannot be written: {error.strerror}.") from error
    return len(rows)


def _verdict(item: Item) -> str:
    return "none" if item.verdict is None else f"{item.verdict:g}"


def read_sheet(path: Path, tasks: Sequence[LabelTask], rater: str | None) -> list[SheetRow]:
    """Return the labels of a sheet; rows without a label are left out.

    Args:
        path: CSV file, separated by commas, semicolons or tabs.
        tasks: The answers that were labelled, once for each field of the verdicts.
        rater: Name of the person, for rows without one.

    Raises:
        SettingsError: If the file cannot be read, or lacks a column, or a row names an unknown answer, was changed, or occurs twice for one
            person.
    """
    rows: list[SheetRow] = []
    problems: list[str] = []
    first: dict[tuple[Key, str], int] = {}
    for number, row in enumerate(_rows(path, tasks), start=2):
        labelled = [task for task in tasks if (row.get(column_of(LABEL, task)) or "").strip()]
        try:
            found = [_read(row, task, rater) for task in labelled]
        except SettingsError as error:
            problems.append(f"row {number}: {error}".rstrip("."))
            continue
        for given in [read.given for read in found[:1]]:
            known = first.setdefault((given.key, given.rater), number)
            if known != number:
                problems.append(
                    f"row {number}: '{given.rater}' labels answer '{given.key[0]}', repeat {given.key[1]}, in row {known} too"
                )
        rows += found
    seeds = sorted({row.seed for row in rows if row.seed is not None})
    if len(seeds) > 1:
        problems.append(f"the column 'seed' has several values, {seeds[0]} and {seeds[1]}")
    if problems:
        raise refused(str(path), problems)
    return rows


def sheet_size(path: Path, tasks: Sequence[LabelTask]) -> int:
    """Return the number of rows of a sheet, labelled or not; errors as in `read_sheet`."""
    return sum(1 for _ in _rows(path, tasks))


def _rows(path: Path, tasks: Sequence[LabelTask]) -> Iterator[Mapping[str, str | None]]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise SettingsError(f"'{path}' cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise SettingsError(
            f"'{path}' is not UTF-8. Save it as `CSV UTF-8` in the spreadsheet."
        ) from error
    header = text.split("\n", 1)[0]
    separator = max((",", ";", "\t"), key=header.count)
    csv.field_size_limit(_MAX_FIELD)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator)
    names = list(reader.fieldnames or ())
    labels = [column_of(LABEL, task) for task in tasks]
    if twice := [name for name in (*COLUMNS, *labels, RATER) if names.count(name) > 1]:
        raise SettingsError(f"'{path}' has two columns '{twice[0]}'. Leave one of them.")
    needed = KEYS if {*names}.intersection(labels) else (*KEYS, labels[0])
    lacking = [name for name in needed if name not in names]
    if lacking:
        found = ", ".join(names) or "none"
        raise SettingsError(
            f"'{path}' has no column '{lacking[0]}', its columns are {found[:200]}. "
            "`regrade label ANSWER_SET --sample 200 --out labels.csv` writes a sheet."
        )
    try:
        yield from reader
    except csv.Error as error:
        raise SettingsError(f"'{path}' is no CSV file: {error}.") from error


def _read(row: Mapping[str, str | None], task: LabelTask, rater: str | None) -> SheetRow:
    sample_id = _plain(row["sample_id"] or "").strip()
    repeat = _whole(row["repeat"], "repeat")
    key = (sample_id, 0 if repeat is None else repeat)
    item = task.items.get(key)
    if item is None:
        raise SettingsError(
            f"answer set '{task.answers.manifest.answer_set_id}' has no answer to sample '{sample_id[:80]}', repeat "
            f"{key[1]}"
        )
    given, guarded = row.get("answer"), _guarded(item.answer)
    if given is not None and not any(map(_same, (given, _plain(given)), (guarded, item.answer))):
        text = _plain(given) or ""
        same = common_length(text, item.answer)
        raise SettingsError(
            f"the text of answer '{sample_id}', repeat {key[1]}, was changed: after {same} characters it goes on with "
            f"'{text[same : same + 40]}', stored is '{item.answer[same : same + 40]}'"
        )
    label, value = task.read(key, _plain(row[column_of(LABEL, task)] or ""))
    name = " ".join(_plain(row.get(RATER) or rater or "").split())
    if not name:
        raise SettingsError("it has no rater: fill the column 'rater', or name one with `--rater`")
    return SheetRow(Label(key, label, value, name), task.field, _whole(row.get("seed"), "seed"))


def _whole(text: str | None, column: str) -> int | None:
    shown = (text or "").strip()
    if not shown:
        return None
    if not shown.isascii() or not shown.isdigit() or len(shown) > 18:
        raise SettingsError(f"its {column} is '{shown[:40]}', expected a whole number")
    return int(shown)


def _guarded(cell: str) -> str:
    """Return a cell that no spreadsheet computes as a formula, because answers are untrusted texts."""
    return _FORMULA_WITHIN.sub(_kept, f"'{cell}" if cell.startswith(_FORMULA) else cell)


def _kept(found: "re.Match[str]") -> str:
    """Return the beginning of a formula with a mark at each place where a spreadsheet may begin a cell."""
    first, *blanks, sign = list(found[0])
    return first + "'" + "".join(blanks).replace("\t", "\t'") + sign


def _plain(cell: str) -> str:
    return cell[1:] if cell[:1] == "'" and cell[1:].startswith(_FORMULA) else cell


def _same(given: str, stored: str) -> bool:
    """Return True for the same text, although spreadsheets change line ends and cut long cells."""
    one, other = " ".join(given.split()), " ".join(stored.split())
    return one == other or (len(given) >= _LONGEST_CELL and other.startswith(one))
