"""Scorer of short answers by their edit distance, as for DocVQA: ANLS, the average normalised Levenshtein similarity.

Biten et al. 2019, arXiv 1907.00490, by the challenge's evaluation code, which lmms-eval and Qwen-VL repeat.
"""

import json
from functools import cache

import pyarrow as pa
from rapidfuzz.distance import Levenshtein

from regrade.scorers.base import Reading, TargetKind, answer_part, check_targets, score_rows
from regrade.scorers.extraction import columns as c
from regrade.scorers.extraction.accepted import accepted_texts
from regrade.scorers.extraction.composed import with_values
from regrade.scorers.extraction.pieces import Pieces
from regrade.scorers.extraction.slots import STATEMENTS, STRUCTURED, Found, Slots, read
from regrade.settings import ScorerName

THRESHOLD = 0.5
"""Least similarity that counts."""
_MARKS = " \t\r\n*_`:"
_FIELD = r"""nswer["']\s*:\z"""
_STRING = r"""\A(?P<before>\s*["'])(?P<text>(?s:.*))["']\s*\z"""
_KEPT = 200
"""Longest extracted answer stored in the scores, in characters; the comparison uses the whole answer."""


class AnlsScorer:
    """Grades by the similarity to the most similar accepted text."""

    name: ScorerName = "anls"
    version = 2
    description = (
        "The text in the last `\\boxed{}`, `<answer>` or JSON field `answer`; else the line after the last `answer is` or `answer:`; "
        "else the whole answer. Its value is 1 minus the edit distance to the nearest accepted text, as a share of the longer one, and 0 "
        "below 0.5; case and repeated white space do not count."
    )
    unparsed = "An answer without text."
    targets: TargetKind = "texts"
    columns: tuple[str, ...] = ("target", "text")

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a row of `SCORE_SCHEMA` for each row; see `Scorer.score`."""
        targets = c.column(batch, "target")
        check_targets(self.name, "a text", batch, c.is_match(targets, r"\S"))
        texts = answer_part(batch)
        found, _ = read(texts, STRUCTURED, _read_line)
        statements, _ = read(texts.where(found.open), STATEMENTS, _read_line)
        found = found.otherwise(statements)
        found = found.otherwise(_found(texts.where(found.open).trimmed()))
        grade = cache(similarity)
        values = [
            0.0 if answer is None or target is None else grade(answer, target)
            for answer, target in zip(found.value.to_pylist(), targets.to_pylist(), strict=True)
        ]
        kept = c.shortened(found.value, _KEPT)
        nothing = c.falsy(pa.nulls(batch.num_rows, pa.bool_()))
        return with_values(score_rows(batch, Reading(kept, nothing, found.place)), values)


def similarity(answer: str, target: str) -> float:
    """Return the similarity of an answer to the most similar accepted text, from 0 to 1; 0 below `THRESHOLD`."""
    return max(_similarity(answer, accepted) for accepted in accepted_texts(target))


def _similarity(answer: str, accepted: str) -> float:
    length = max(len(answer.upper()), len(accepted.upper()))
    one, other = (" ".join(text.strip().lower().split()) for text in (answer, accepted))
    # A text that is much longer than the other is not compared, so that no answer takes long.
    if length == 0 or abs(len(one) - len(other)) > length * (1 - THRESHOLD):
        return 0.0
    found = 1 - Levenshtein.distance(one, other) / length
    return found if found >= THRESHOLD else 0.0


def _read_line(slots: Slots) -> Found:
    line = _found(slots.content.left_trimmed(_MARKS).before_first("\n").right_trimmed(" \t\r*_`"))
    text = slots.content.split(_STRING)["text"]
    if not c.is_any(text.present):
        return line
    text = text.where(slots.text.until(slots.rest.start).matches(_FIELD))
    return Found(c.mapped(text.text, _unescaped), text, line.refused).otherwise(line)


def _unescaped(text: str) -> str:
    """Return what a string of JSON stands for; the text itself if it is none."""
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return text


def _found(pieces: Pieces) -> Found:
    place = pieces.where(pieces.matches(r"\S"))
    return Found(place.text, place, c.is_equal(place.text, ""))


scorer = AnlsScorer
