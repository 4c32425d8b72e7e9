"""Scorer of MRCR: how much of a text from a long conversation an answer repeats."""

from difflib import Match, SequenceMatcher
from itertools import accumulate

import numpy as np
import orjson
import pyarrow as pa

from regrade.scorers.base import Reading, TargetKind, answer_part, score_rows
from regrade.scorers.extraction import columns as c
from regrade.settings import ScorerName
from regrade.settings.errors import SettingsError

START = "random_string_to_prepend"
"""Field of `doc` with the text with which an answer must begin."""
_MOST_COMPARISONS = 30_000_000
"""Comparisons of characters for an answer: seconds. Answers of the length of the target need a small part of it."""
_KEPT = 200
"""Longest extracted answer stored in the scores, in characters; the comparison uses the whole answer."""


class MrcrScorer:
    """Grades by the share of characters in equal parts, as the dataset's card does."""

    name: ScorerName = "mrcr"
    version = 1
    description = (
        "The answer after the random text with which it must begin, as the ratio of `difflib.SequenceMatcher` to the target "
        "after the same text: from 0 to 1, for an equal answer 1."
    )
    unparsed = (
        "An answer that does not begin with the random text; white space before it does not count."
    )
    targets: TargetKind = "text"
    columns: tuple[str, ...] = ("target", "text", "doc")

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a row of `SCORE_SCHEMA` for each row; see `Scorer.score`."""
        answers = answer_part(batch).left_trimmed(" \t\r\n").text.to_pylist()
        rows = zip(answers, *(batch[name].to_pylist() for name in _READ), strict=True)
        parts, ratios = [], []
        for answer, target, document, sample in rows:
            start = _start(self.name, document, sample)
            begins = answer is not None and target is not None and answer.startswith(start)
            part = answer.removeprefix(start) if begins else None
            parts.append(None if part is None else part[:_KEPT])
            ratios.append(0.0 if part is None else ratio(part, target.removeprefix(start)))
        reading = Reading(pa.array(parts, pa.string()), c.falsy(pa.nulls(len(parts), pa.bool_())))
        scored = score_rows(batch, reading)
        failed = np.asarray(scored["value"].is_null())
        values = pa.array(ratios, pa.float64(), mask=failed)
        return scored.set_column(
            scored.schema.get_field_index("value"), scored.schema.field("value"), values
        )


_READ = ("target", "doc", "sample_id")


def ratio(answer: str, target: str, most: int = _MOST_COMPARISONS) -> float:
    """Return the similarity of two texts, from 0 to 1: `difflib.SequenceMatcher(None, answer, target).ratio()`.

    Its time may grow with the third power of the length. After `most` comparisons no further equal parts are looked for, and
    the longest ones were found first.
    """
    return _Bounded(answer, target, most).ratio()


class _Bounded(SequenceMatcher[str]):
    """A matcher whose work is limited."""

    def __init__(self, answer: str, target: str, most: int) -> None:
        super().__init__(None, answer, target)
        self._left = most
        # Comparisons that `find_longest_match` makes for the characters before each place of the answer.
        places = self.b2j  # type: ignore[attr-defined]  # documented in difflib, not in the type stubs
        self._costs = [0, *accumulate(1 + len(places.get(character, ())) for character in answer)]

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> Match:
        """Return the longest equal part, or an empty one if too many comparisons were made."""
        end = len(self._costs) - 1 if ahi is None else ahi
        cost = self._costs[end] - self._costs[alo]
        if cost > self._left:
            self._left = 0
            return Match(alo, blo, 0)
        self._left -= cost
        return super().find_longest_match(alo, end, blo, bhi)


def _start(scorer: str, document: str | None, sample: str) -> str:
    """Return the text with which an answer must begin.

    Raises:
        SettingsError: If the question has none.
    """
    fields = None if document is None else orjson.loads(document)
    start = fields.get(START) if isinstance(fields, dict) else None
    if not isinstance(start, str) or not start:
        raise SettingsError(
            f"Scorer '{scorer}' needs `{START}` in the questions' `doc`, which that of sample '{sample}' lacks. Choose another "
            "scorer with `--scorer`, or name the column in the dataset's `doc_columns`."
        )
    return start


scorer = MrcrScorer
