"""Comparisons of two answer sets: the rows and the kind of change of each question."""

import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from cachetools import LRUCache
from markupsafe import Markup
from numpy.typing import NDArray

from regrade.answers.result import Result
from regrade.comparing.comparison import Compared, CompareOptions, compare_sets
from regrade.comparing.pairing import shown_rows
from regrade.pages.viewer.answer_list import EXTRACTED_CHARACTERS
from regrade.pages.viewer.filters import KINDS, PairFilters
from regrade.pages.viewer.index import Rows, key_of
from regrade.pages.viewer.library import StoredSet
from regrade.text.hidden import Span, one_line

COMPARED_KEPT = 6


@dataclass(frozen=True, slots=True)
class PairIndex:
    """A comparison, and the rows and the kind of each of its questions; arrays of shape (n,), in the baseline's order."""

    compared: Compared
    base_row: Rows
    """Row of the answer in the baseline that is shown; see `shown_rows`."""
    candidate_row: Rows
    kind: NDArray[np.int8]
    subset: NDArray[np.object_]
    sample_id: NDArray[np.object_] = field(repr=False)
    """Id in the baseline."""

    def rows(self, filters: PairFilters) -> Rows:
        """Return the places of the questions that pass the filters."""
        fits = np.ones(len(self.kind), np.bool_)
        if filters.kind:
            fits &= np.isin(self.kind, [KINDS.index(name) for name in filters.kind])
        if filters.subset is not None:
            fits &= self.subset == filters.subset
        return np.flatnonzero(fits)


class Pairing:
    """Comparisons, made once and remembered."""

    def __init__(self) -> None:
        self._known: LRUCache[tuple[object, ...], PairIndex] = LRUCache(COMPARED_KEPT)
        self._lock = threading.Lock()

    def of(self, base: StoredSet, candidate: StoredSet, filters: PairFilters) -> PairIndex:
        """Return the comparison of two answer sets.

        Raises:
            NotComparableError: If more than the model differs, and `filters.allow` does not list it.
            UnknownNameError: If the scorer is not installed.
            DamagedAnswersError: If answers are damaged.
        """
        both = [
            (stored.id, *(key_of(stored.answers, file) for file in (None, *stored.scorings)))
            for stored in (base, candidate)
        ]
        key = *both, filters.allow, filters.scorer
        with self._lock:
            if key not in self._known:
                allow: Any = filters.allow
                options = CompareOptions(allow=allow, scorer=filters.scorer)
                compared = compare_sets(base.answers, candidate.answers, options)
                self._known[key] = _pair_index(compared)
            return self._known[key]


def _pair_index(compared: Compared) -> PairIndex:
    pairs = compared.pairs
    base_row, candidate_row = shown_rows(compared.sides, pairs)
    change = pairs.change
    extracted = [
        np.array(side.scores["extracted"].take(pa.array(rows, pa.int64())).to_pylist(), object)
        for side, rows in zip(compared.sides, (base_row, candidate_row), strict=True)
    ]
    alike = extracted[0] == extracted[1]
    kind = np.full(len(change), KINDS.index("both partly right"), np.int8)
    wrong = (change == 0) & (pairs.base <= 0)
    kind[wrong & alike] = KINDS.index("both wrong, the same")
    kind[wrong & ~alike] = KINDS.index("both wrong, differently")
    kind[(change == 0) & (pairs.base >= 1)] = KINDS.index("both right")
    kind[change < 0] = KINDS.index("right to wrong")
    kind[change > 0] = KINDS.index("wrong to right")
    order = np.argsort(base_row, kind="stable")
    return PairIndex(
        compared,
        base_row[order],
        candidate_row[order],
        kind[order],
        pairs.subset[order],
        pairs.base_id[order],
    )


def extracted_line(side: Result, row: int) -> Markup | None:
    """Return the value that the scorer read, on one line; None if it read nothing."""
    text = side.scores["extracted"][row].as_py()
    return None if text is None else one_line(text, EXTRACTED_CHARACTERS)


def place_read(side: Result, row: int) -> Span | None:
    """Return the place in the text out of which the value was read; None if it is not known."""
    start, end = side.scores["start"][row].as_py(), side.scores["end"][row].as_py()
    return None if start is None or end is None else (start, end)
