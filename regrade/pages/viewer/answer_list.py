"""The page with the answers of a set that pass the filters."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from regrade.answers.scorefile import ScoreFile
from regrade.pages.viewer.answer_facts import with_choice
from regrade.pages.viewer.filters import PAGE_ROWS, AnswerFilters, on_page, toggled
from regrade.pages.viewer.index import AnswerIndex
from regrade.pages.viewer.library import NotFoundError, Shelf, StoredSet
from regrade.pages.viewer.links import Visit
from regrade.pages.viewer.selecting import Selection
from regrade.pages.viewer.verdicts import VERDICTS
from regrade.records.messages import with_short_marks
from regrade.stats.metrics import Metrics
from regrade.text.hidden import end_of, one_line

QUESTION_CHARACTERS, ANSWER_CHARACTERS, EXTRACTED_CHARACTERS = 220, 170, 60
MAX_SUBSETS = 200
"""Most subsets beside the list: of more, those with the lowest accuracy."""


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """An answer in the list; texts are HTML."""

    number: int
    sample_id: str
    repeat: int
    subset: str
    verdict: str
    truncated: bool
    question: Markup
    answer: Markup
    extracted: Markup | None
    target: Markup | None
    length: int | None
    """In tokens, or in characters if the set has no tokens."""
    seconds: float | None
    href: str


@dataclass(frozen=True, slots=True)
class SubsetRow:
    """A subset beside the list."""

    name: str
    shown: int
    """Answers that pass all other filters."""
    metrics: Metrics | None
    """Metrics over all its answers; None without a scoring."""
    href: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class Chip:
    """A filter that a click adds or removes."""

    name: str
    count: int
    href: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class AnswerList:
    """The page."""

    stored: StoredSet
    scoring: ScoreFile | None
    filters: AnswerFilters
    total: int
    matching: int
    first: int
    """Number of the first row shown, from 1."""
    pages: int
    rows: tuple[AnswerRow, ...]
    verdicts: tuple[Chip, ...]
    truncated: Chip | None
    subsets: tuple[SubsetRow, ...]
    n_subsets: int
    length_unit: str
    has_seconds: bool
    repeats: int
    others: tuple[StoredSet, ...]
    """Other sets of the benchmark."""


def answer_list(visit: Visit) -> AnswerList:
    """Return the page.

    Raises:
        AddressError: If a filter names something that the set does not have.
        DamagedAnswersError: If answers or scores are damaged.
    """
    stored, filters = visit.stored, visit.filters
    index, selection = selected(visit)
    shown, number, pages = on_page(selection.rows, filters.page)
    return AnswerList(
        stored=stored,
        scoring=index.scoring,
        filters=filters.but(page=number),
        total=index.rows,
        matching=len(selection.rows),
        first=PAGE_ROWS * (number - 1) + 1,
        pages=pages,
        rows=tuple(_rows(visit, index, shown.tolist())),
        verdicts=tuple(_chips(visit, selection)),
        truncated=_truncated(visit, index, selection),
        subsets=_subsets(visit, index, selection),
        n_subsets=len(index.subsets),
        length_unit="tokens" if index.has_tokens else "characters",
        has_seconds=bool(np.isfinite(index.seconds).any()),
        repeats=stored.answers.manifest.specification.repeats,
        others=tuple(others(visit.shelf, stored)),
    )


def selected(visit: Visit) -> tuple[AnswerIndex, Selection]:
    """Return the index of a set and the rows that pass the filters; errors as in `answer_list`."""
    library, filters = visit.library, visit.filters
    scoring = visit.stored.scoring(filters.scorer)
    index = library.index(visit.stored, scoring)
    other = None
    if filters.against is not None:
        against = visit.shelf.find(filters.against)
        same = against.same_scoring(scoring)
        if same is None:
            title = "without a scoring" if scoring is None else f"scored by {scoring.title}"
            raise NotFoundError(
                f"Answer set '{against.id}' has no scoring like this one, which is {title}. Score both: `regrade score`."
            )
        other = library.index(against, same)
    return index, library.selector.select(index, filters, other)


def others(shelf: Shelf, stored: StoredSet) -> list[StoredSet]:
    """Return the other sets of the benchmark, newest first."""
    alike = (other for other in shelf.sets if other.benchmark == stored.benchmark)
    return [other for other in alike if other.id != stored.id]


def _rows(visit: Visit, index: AnswerIndex, rows: Sequence[int]) -> list[AnswerRow]:
    readers = visit.library.readers
    texts = readers.take(index.answers, rows, ("question", "text", "error", "choices")).to_pylist()
    if any(stored["question"] is None for stored in texts):
        prompts = readers.take(index.answers, rows, ("prompt",))["prompt"].to_pylist()
        for stored, prompt in zip(texts, prompts, strict=True):
            stored["prompt"] = prompt
    readers.add_images(index.answers, rows, texts)
    return [_row(visit, index, row, stored) for row, stored in zip(rows, texts, strict=True)]


def _row(visit: Visit, index: AnswerIndex, row: int, stored: dict[str, Any]) -> AnswerRow:
    sample_id, repeat = str(index.sample_id[row].as_py()), int(index.repeat[row])
    extracted, target = index.extracted[row].as_py(), index.target[row].as_py()
    seconds = float(index.seconds[row])
    return AnswerRow(
        number=int(index.index[row]),
        sample_id=sample_id,
        repeat=repeat,
        subset=index.subsets[index.subset[row]],
        verdict=VERDICTS[index.verdict[row]],
        truncated=bool(index.truncated[row]),
        question=question_line(stored),
        answer=answer_line(
            stored["text"] if stored["error"] is None else stored["error"], index, row
        ),
        extracted=_shown(extracted, stored["choices"]),
        target=_shown(target, stored["choices"]),
        length=_length(index, row, stored["text"]),
        seconds=None if math.isnan(seconds) else seconds,
        href=visit.answer(sample_id, repeat),
    )


def _shown(read: str | None, choices: Sequence[str] | None) -> Markup | None:
    """Return what was read, or the target, on one line; of a choice's letter with the choice's text."""
    return None if read is None else one_line(with_choice(read, choices), EXTRACTED_CHARACTERS)


def _length(index: AnswerIndex, row: int, text: str | None) -> int | None:
    if not index.has_tokens:
        return None if text is None else len(text)
    tokens = float(index.tokens[row])
    return None if math.isnan(tokens) else int(tokens)


def question_line(stored: dict[str, Any]) -> Markup:
    """Return the beginning of a question on one line; the end of the prompt if the question is not known."""
    asked = stored.get("prompt") or "" if stored["question"] is None else stored["question"]
    line = one_line if stored["question"] is not None else end_of
    return line(with_short_marks(asked, stored["images"] or ()), QUESTION_CHARACTERS)


def answer_line(text: str | None, index: AnswerIndex, row: int) -> Markup:
    """Return the part of an answer that the scorer read, marked, on one line; the end of the answer if it is not known."""
    if text is None:
        return Markup("")
    start, end = int(index.start[row]), int(index.end[row])
    if 0 <= start < end <= len(text):
        return one_line(text, ANSWER_CHARACTERS, (start, end))
    return end_of(text, ANSWER_CHARACTERS)


def _chips(visit: Visit, selection: Selection) -> list[Chip]:
    chosen = visit.filters.verdict
    return [
        Chip(name, count, visit.answers(verdict=toggled(chosen, name, VERDICTS)), name in chosen)
        for name, count in selection.by_verdict.items()
    ]


def _truncated(visit: Visit, index: AnswerIndex, selection: Selection) -> Chip | None:
    if not index.truncated.any():
        return None
    chosen = visit.filters.truncated == "yes"
    href = visit.answers(truncated=None if chosen else "yes")
    return Chip("truncated", selection.truncated, href, chosen)


def _subsets(visit: Visit, index: AnswerIndex, selection: Selection) -> tuple[SubsetRow, ...]:
    """Return the subsets, the lowest accuracy first; none if there is only one."""
    if len(index.subsets) < 2:
        return ()
    summary = index.scoring.summary.subsets if index.scoring else ()
    metrics = {subset.name: subset.metrics for subset in summary}
    rows = [
        SubsetRow(
            name=name,
            shown=int(selection.by_subset[place]),
            metrics=metrics.get(name),
            href=visit.answers(subset=None if visit.filters.subset == name else name),
            chosen=visit.filters.subset == name,
        )
        for place, name in enumerate(index.subsets)
    ]
    rows.sort(key=lambda row: (_accuracy(row), row.name))
    kept = rows[:MAX_SUBSETS]
    return tuple(kept + [row for row in rows[MAX_SUBSETS:] if row.chosen])


def _accuracy(row: SubsetRow) -> float:
    if row.metrics is None or row.metrics.accuracy is None:
        return 2.0
    return row.metrics.accuracy
