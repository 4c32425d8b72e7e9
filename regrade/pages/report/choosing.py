"""Choose the answers of a report: flipped ones first, then wrong and unparsed ones, spread over sets and questions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regrade.answers.result import Result
from regrade.pages.viewer.filters import KINDS
from regrade.pages.viewer.index import AnswerIndex, Rows
from regrade.pages.viewer.library import StoredSet
from regrade.pages.viewer.pair_index import PairIndex
from regrade.pages.viewer.verdicts import VERDICTS, verdict_codes

FLIPS = ("right to wrong", "wrong to right")
UNREAD = ("unparsed", "unfinished", "timeout")
SHARES = {"right to wrong": 0.35, "wrong to right": 0.15, "wrong": 0.3, "unparsed": 0.2}
"""Share of the places for each kind; places that a kind does not need go to the others, in this order."""
Indexed = tuple[StoredSet, AnswerIndex, StoredSet | None, PairIndex | None]


@dataclass(frozen=True, slots=True)
class Flip:
    """The baseline's answer to the question of a flipped answer, and both scores as the comparison counts them."""

    base: StoredSet
    row: int
    sample_id: str
    """Id of the question in the baseline."""
    scores: tuple[dict[str, Any], dict[str, Any]]
    """Rows of `SCORING_SCHEMA`: the baseline's and the candidate's."""
    verdicts: tuple[str, str]
    """Their names out of `VERDICTS`."""


@dataclass(frozen=True, slots=True)
class ChosenAnswer:
    """A chosen answer."""

    kind: str
    """Name out of `SHARES`."""
    stored: StoredSet
    index: AnswerIndex
    row: int
    flip: Flip | None = None


def chosen_answers(sets: Sequence[Indexed], limit: int) -> tuple[list[ChosenAnswer], int]:
    """Return at most `limit` answers in the order of their kinds, and how many answers there are of these kinds.

    Args:
        sets: Answer sets with index, baseline and comparison.
        limit: Most answers.
    """
    found = {kind: [_rows(item, kind) for item in sets] for kind in SHARES}
    available = {kind: sum(map(len, rows)) for kind, rows in found.items()}
    places = _places(available, limit)
    choices: list[ChosenAnswer] = []
    for kind, rows_of_sets in found.items():
        counts = _evenly([len(rows) for rows in rows_of_sets], places[kind])
        for item, rows, count in zip(sets, rows_of_sets, counts, strict=True):
            choices += [_chosen(item, kind, int(row)) for row in _spread(rows, count)]
    return choices, sum(available.values())


def _rows(item: Indexed, kind: str) -> Rows:
    """Return the rows of a kind, ordered by question; for a flip the numbers of the questions in the comparison."""
    _, index, _, pair = item
    if kind in FLIPS:
        if pair is None:
            return np.zeros(0, np.int64)
        return np.flatnonzero(pair.kind == KINDS.index(kind)).astype(np.int64)
    names = ("wrong",) if kind == "wrong" else UNREAD
    mask = np.isin(index.verdict, [VERDICTS.index(name) for name in names])
    if pair is not None:
        flipped = np.isin(pair.kind, [KINDS.index(flip) for flip in FLIPS])
        mask[pair.candidate_row[flipped]] = False
    rows: Rows = index.by_number[mask[index.by_number]]
    return rows


def _chosen(item: Indexed, kind: str, row: int) -> ChosenAnswer:
    stored, index, base, pair = item
    if kind not in FLIPS or pair is None or base is None:
        return ChosenAnswer(kind, stored, index, row)
    rows = int(pair.base_row[row]), int(pair.candidate_row[row])
    (before, said), (after, says) = (
        _scored(side, at) for side, at in zip(pair.compared.sides, rows, strict=True)
    )
    flip = Flip(base, rows[0], str(pair.sample_id[row]), (before, after), (said, says))
    return ChosenAnswer(kind, stored, index, rows[1], flip)


def _scored(side: Result, row: int) -> tuple[dict[str, Any], str]:
    """Return a row of scores, and its verdict."""
    scores = side.scores.slice(row, 1)
    return scores.to_pylist()[0], VERDICTS[verdict_codes(scores, side.file.scale)[0]]


def _places(available: dict[str, int], limit: int) -> dict[str, int]:
    """Return the number of answers of each kind."""
    places = {
        kind: min(available[kind], int(share * limit + 1e-9)) for kind, share in SHARES.items()
    }
    for kind in SHARES:
        left = limit - sum(places.values())
        places[kind] += min(left, available[kind] - places[kind])
    return places


def _evenly(counts: Sequence[int], total: int) -> list[int]:
    """Distribute `total` over sets with `counts` answers, as evenly as possible."""
    given = [0] * len(counts)
    while total > 0:
        open_sets = [place for place, count in enumerate(counts) if given[place] < count]
        if not open_sets:
            break
        part = max(1, total // len(open_sets))
        for place in open_sets:
            more = min(part, counts[place] - given[place], total)
            given[place] += more
            total -= more
    return given


def _spread(rows: Rows, count: int) -> Rows:
    """Return `count` rows with even distances, the first among them."""
    return rows[np.arange(count, dtype=np.int64) * len(rows) // max(count, 1)]
