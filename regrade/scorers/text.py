"""Scorer of short text answers, for questions with free answers, such as BBH with chain of thought, or SQuAD."""

import pyarrow as pa

from regrade.scorers.base import Reading, TargetKind, answer_part, check_targets, score_rows
from regrade.scorers.extraction import columns as c
from regrade.scorers.extraction.accepted import is_accepted
from regrade.scorers.extraction.pieces import Pieces
from regrade.scorers.extraction.slots import (
    IN_SENTENCE,
    STATEMENTS,
    STRUCTURED,
    TEX_TEXT,
    Found,
    Slots,
    read,
)
from regrade.settings import ScorerName

_MARKS = " \t\r\n*_`\"'\u201c\u201d\u2018\u2019\u00ab\u00bb:"
_END_MARKS = _MARKS + ".,;!?$\\"
_SENTENCE_END = r"""(?:[a-z]{3}|\b[a-z0-9]{1,2}|[0-9)\]}"'*_%`$\x{201D}\x{2019}]|[A-Z]{2}|\bNo)[.!?](?:[*"')\]]*\s|\z)"""
"""End of a sentence, unlike the period of `St. Louis` or `J. K. Rowling`."""
_SEVERAL_SENTENCES = r"""(?:[a-z]{3}|[0-9)\]])[.!?][*"')\]]*\s+[A-Z]|, (?:because|since)\b"""
_REASON = r"(?i)[,;]? \(?(?:because|since|as (?:it|he|she|they|the|this|that|we)|which (?:is|means)|so that)\b"
_NO_ANSWER = (
    r"(?i)\A(?:correct|right|wrong|incorrect|clear|helpful|useful|based on|because|derived|obtained|found|given|as follows"
    r"|shown|below|above|explained|to the question|easy to)\b"
)
"""Words after `answer is` that say something about the answer, and do not give it."""
_KEPT = 200
"""Longest extracted answer stored in the scores, in characters; the comparison uses the whole answer."""


class TextScorer:
    """Reads a short text from a slot or after `answer is`, and compares it with all accepted texts."""

    name: ScorerName = "text"
    version = 2
    description = (
        "The text in the last `\\boxed{}`, `<answer>` or JSON field `answer`; else the sentence after the last `answer is` "
        "or `answer:`; else the whole answer, if it is a single line. It must equal one of the accepted texts, without "
        "case, articles, punctuation and repeated white space, or as a number."
    )
    unparsed = "An answer of several lines without such a slot or marker, or with nothing in it."
    targets: TargetKind = "texts"
    columns: tuple[str, ...] = ("target", "text")

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a row of `SCORE_SCHEMA` for each row; see `Scorer.score`."""
        targets = c.column(batch, "target")
        check_targets(self.name, "a text", batch, c.is_match(targets, r"\S"))
        texts = answer_part(batch)
        found, has_slot = read(texts, STRUCTURED, _read_slot)
        rest = texts.where(found.open).without(has_slot)
        statements, has_statement = read(rest, STATEMENTS, _read_sentence)
        found = found.otherwise(statements)
        line = rest.without(has_statement).trimmed()
        found = found.otherwise(_found(line.without(line.matches(r"\n"))))
        right = is_accepted(found.value, targets)
        return score_rows(batch, Reading(c.shortened(found.value, _KEPT), right, found.place))


def _read_slot(slots: Slots) -> Found:
    """Read the content; of a sentence what it states, or its part before a reason."""
    content = slots.content.split(TEX_TEXT)["content"].otherwise(slots.content)
    stated = _sentence(content.after_last(IN_SENTENCE))
    several = content.where(c.both(stated.open, content.matches(_SEVERAL_SENTENCES)))
    return stated.otherwise(_sentence(several)).otherwise(_found(content))


def _read_sentence(slots: Slots) -> Found:
    return _sentence(slots.content)


def _sentence(pieces: Pieces) -> Found:
    line = pieces.left_trimmed(_MARKS).before_first("\n")
    first = line.split(rf"\A(?P<sentence>(?s:.*?){_SENTENCE_END})")["sentence"]
    sentence = first.otherwise(line).before_first(_REASON)
    return _found(sentence.without(sentence.matches(_NO_ANSWER)))


def _found(pieces: Pieces) -> Found:
    place = pieces.left_trimmed(_MARKS).right_trimmed(_END_MARKS)
    place = place.where(place.matches(r"\S"))
    return Found(place.text, place, c.is_equal(place.text, ""))


scorer = TextScorer
