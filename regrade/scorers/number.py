"""Scorer that reads a number from an answer in any common form, for GSM8K and similar benchmarks."""

import pyarrow as pa

from regrade.scorers.base import TargetKind, answer_part
from regrade.scorers.extraction import columns as c
from regrade.scorers.extraction.number_patterns import DIGIT
from regrade.scorers.extraction.numerals import (
    direct_number,
    last_number,
    only_number,
    sentence_number,
)
from regrade.scorers.extraction.pieces import Pieces
from regrade.scorers.extraction.slots import (
    IN_SENTENCE,
    OF_SECTION,
    STATEMENTS,
    STRUCTURED,
    TEX_TEXT,
    Found,
    Slots,
    find,
    read,
)
from regrade.scorers.number_strict import number_after_hashes, score_numbers
from regrade.settings import ScorerName

_SENTENCE = r"\A[^=\\^|]*\p{L}{2,} [^=\\^|]*\z"
"""Content of a slot that may be a sentence, and is no equation."""
_ONE_SENTENCE = r"\A[^\n.!?]*(?:[.][0-9]+[^\n.!?]*)*[.!?]?\s*\z"


class NumberScorer:
    """Reads the number after `####`, else in a box or another slot, else after `answer is`, else the last number."""

    name: ScorerName = "number"
    version = 3
    description = (
        "The number after the last `####`; else the only number in the last `\\boxed{}`, `<answer>` or JSON field "
        "`answer`; else the number after the last `answer:`, `A:` or `answer is`; else the last number (after "
        "`answer:`, if there is one). Compared as numbers: 72 is $72.00."
    )
    unparsed = (
        "An answer without any number; with a slot or a marker that holds an expression or several numbers, such as "
        "`8-4`; or with a slot or `answer:` and no number in or after any of them."
    )
    targets: TargetKind = "number"
    columns: tuple[str, ...] = ("target", "text")

    def __init__(self, *, last: bool = False) -> None:
        """Choose what counts.

        Args:
            last: The last number of the answer, wherever it stands.
        """
        self._last = last

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a row of `SCORE_SCHEMA` for each row; see `Scorer.score`."""
        texts = answer_part(batch)
        if self._last:
            return score_numbers(self.name, batch, last_number(texts))
        found = number_after_hashes(texts)
        in_slots, has_slot = read(texts.where(found.open), STRUCTURED, _read_slot)
        found = found.otherwise(in_slots)
        statements, has_statement = read(texts.where(found.open), STATEMENTS, _read_statement)
        found = found.otherwise(statements)
        rest = texts.where(found.open).without(has_slot)
        rest = _after_section(rest.where(has_statement)).otherwise(rest.without(has_statement))
        return score_numbers(self.name, batch, found.otherwise(last_number(rest)))


def _read_slot(slots: Slots) -> Found:
    """Read the only number, or else what the sentence in the slot states, as after `the answer is that`."""
    found = only_number(slots.content)
    content = slots.content.where(found.refused)
    if not c.is_any(content.present):
        return found
    content = content.split(TEX_TEXT)["content"].otherwise(content).left_trimmed(" \t\"'")
    stated = direct_number(content.after_last(IN_SENTENCE))
    sentence = sentence_number(content.where(c.both(stated.open, content.matches(_SENTENCE))))
    read_in = stated.otherwise(sentence)
    is_read = c.is_present(read_in.value)
    return Found(
        c.choose(is_read, read_in.value, found.value),
        read_in.place.where(is_read).otherwise(found.place),
        c.both(found.refused, c.negated(is_read)),
    )


def _read_statement(slots: Slots) -> Found:
    found = direct_number(slots.content)
    rest = slots.content.where(found.open)
    if not c.is_any(rest.present):
        return found
    in_sentence = slots.text.where(found.open).after_last(IN_SENTENCE)
    is_sentence = c.both(in_sentence.present, c.mask(in_sentence.start == slots.rest.start))
    sentence = rest.where(c.either(is_sentence, rest.matches(_ONE_SENTENCE)))
    return found.otherwise(sentence_number(sentence))


def _after_section(texts: Pieces) -> Pieces:
    """Return the part of each text with a statement whose last number counts: the text after `answer:`, or else all of it.

    Digits in a sentence after `answer is` that could not be read rule out all other numbers.
    """
    closing = texts.after_last(IN_SENTENCE)
    texts = texts.without(closing.matches(rf"\A[^\n.!?]*{DIGIT}"))
    return find(texts, [(marker, None) for marker in OF_SECTION]).rest.otherwise(texts)


scorer = NumberScorer
