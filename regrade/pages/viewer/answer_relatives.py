"""The lists below one answer: its scorings, its repeats, and the answers of other models to the question."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import orjson
from markupsafe import Markup

from regrade.answers.scorefile import ScoreFile
from regrade.pages.viewer.answer_list import answer_line, others
from regrade.pages.viewer.answer_texts import html_of
from regrade.pages.viewer.filters import AnswerFilters, PairFilters
from regrade.pages.viewer.index import AnswerIndex
from regrade.pages.viewer.links import Visit
from regrade.pages.viewer.verdicts import VERDICTS

OTHER_ROWS = 200_000
"""Answers of other sets that are read without being asked for."""
MAX_OTHERS = 60


@dataclass(frozen=True, slots=True)
class ScoringRow:
    """Result of one scoring for the answer."""

    scoring: ScoreFile
    verdict: str
    value: float | None
    extracted: Markup | None
    metrics: tuple[tuple[str, str], ...]
    stale: bool
    mark: str
    """`older version 1f0c6a2b` or `current version ...`, if its scorer has several; else empty."""
    shown: bool
    href: str


@dataclass(frozen=True, slots=True)
class Sibling:
    """Another answer to the question: a repeat, or that of another set."""

    title: str
    repeat: int
    verdict: str
    extracted: Markup | None
    answer: Markup
    current: bool
    href: str
    compare: str | None = None


def scoring_rows(visit: Visit, sample_id: str, repeat: int, shown: AnswerIndex) -> list[ScoringRow]:
    """Return the results of all scorings of the set for an answer; `shown` is the index with the scoring on the page."""
    rows, stored = [], visit.stored
    for scoring in stored.scorings:
        index = visit.library.index(stored, scoring)
        row = index.row_of(sample_id, repeat)
        if row is None:
            continue
        value = float(index.value[row])
        chosen = None if scoring is stored.headline else scoring.label
        rows.append(
            ScoringRow(
                scoring=scoring,
                verdict=VERDICTS[index.verdict[row]],
                value=None if math.isnan(value) else value,
                extracted=html_of(index.extracted[row].as_py()),
                metrics=_metrics(index.metrics[row].as_py()),
                stale=scoring.label in stored.stale,
                mark=stored.mark(scoring),
                shown=shown.scoring is not None and shown.scoring.label == scoring.label,
                href=visit.answer(sample_id, repeat, scorer=chosen),
            )
        )
    return rows


def _metrics(stored: str | None) -> tuple[tuple[str, str], ...]:
    """Return names and values of a row's metrics; the JSON as it is if it is no object."""
    if stored is None:
        return ()
    try:
        values = orjson.loads(stored)
    except orjson.JSONDecodeError:
        values = None
    if not isinstance(values, dict):
        return (("metrics", stored),)
    return tuple(
        (name, f"{value:g}" if isinstance(value, float) else str(value))
        for name, value in values.items()
    )


def repeats_of(visit: Visit, index: AnswerIndex, row: int) -> list[Sibling]:
    """Return all answers of the set to the question; none if there is only one."""
    rows = index.rows_of(str(index.sample_id[row].as_py())).tolist()
    if len(rows) < 2:
        return []
    return _siblings(visit, index, rows, row)


def _siblings(
    visit: Visit,
    index: AnswerIndex,
    rows: Sequence[int],
    current: int | None = None,
    *,
    title: str = "",
    compare: str | None = None,
) -> list[Sibling]:
    texts = visit.library.readers.take(index.answers, rows, ("text", "error")).to_pylist()
    return [
        Sibling(
            title=title,
            repeat=int(index.repeat[row]),
            verdict=VERDICTS[index.verdict[row]],
            extracted=html_of(index.extracted[row].as_py()),
            answer=answer_line(stored["error"] or stored["text"], index, row),
            current=row == current,
            href=visit.answer(str(index.sample_id[row].as_py()), int(index.repeat[row])),
            compare=compare,
        )
        for row, stored in zip(rows, texts, strict=True)
    ]


def other_models(
    visit: Visit, scoring: ScoreFile | None, sample_id: str, every: bool
) -> tuple[tuple[Sibling, ...], int]:
    """Return the first answer of each other set of the benchmark to the question, and the number of sets not read."""
    found: list[Sibling] = []
    unread = read_rows = 0
    at = visit.filters.at
    plain = AnswerFilters(at=at, format=visit.filters.format)
    for other in others(visit.shelf, visit.stored):
        read_rows += other.answers.manifest.rows
        if len(found) >= MAX_OTHERS or (read_rows > OTHER_ROWS and not every):
            unread += 1
            continue
        index = visit.library.index(other, other.same_scoring(scoring) or other.headline)
        if rows := index.rows_of(sample_id).tolist()[:1]:
            there = replace(visit, stored=other, filters=plain)
            pair = visit.links.pair(visit.stored.id, other.id, sample_id, PairFilters(at=at))
            found += _siblings(there, index, rows, title=other.model, compare=pair)
    return tuple(found), unread
