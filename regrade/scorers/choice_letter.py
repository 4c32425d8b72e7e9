"""Scorer that reads the letter of a choice from the text of an answer."""

import pyarrow as pa

from regrade.scorers.base import Reading, TargetKind, answer_part, score_rows
from regrade.scorers.extraction import columns as c
from regrade.scorers.extraction.choices import chosen_by_text, existing, target_letters
from regrade.scorers.extraction.letters import first_letter, leading_letter, only_letter
from regrade.settings import ScorerName

_MARKER = r"""(?:(?i:\b(?:answer|(?:correct|right|best) (?:option|choice))["'*_]*[ \t]*(?:is|:|=))|\\boxed\{)"""
_REACH = 80
"""Length of the text read after a marker, in characters."""
_MARKS = 16
"""Most quotes, emphasis and white space around a repeated choice, in characters."""


class ChoiceLetterScorer:
    """Reads the letter from the text, or finds the choice that the text repeats."""

    name: ScorerName = "choice_letter"
    version = 1
    description = (
        "The letter that is the whole text; else the choice whose text is the whole text; else the letter after "
        "the last `answer is`, `answer:`, `correct option is` or in the last `\\boxed{}`; else the letter that the "
        "text begins with, as in `(B) because`."
    )
    unparsed = (
        "An answer that gives no letter in one of these ways, or one beyond the row's choices."
    )
    targets: TargetKind = "letter"
    columns: tuple[str, ...] = ("target", "choices", "text")

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a row of `SCORE_SCHEMA` for each row; see `Scorer.score`."""
        targets = target_letters(self.name, batch)
        choices: c.Lists = batch.column("choices")
        texts = answer_part(batch)
        letter = only_letter(texts)
        letter = c.coalesced(letter, _repeated(_left(texts, letter), choices))
        letter = c.coalesced(letter, _marked(_left(texts, letter)))
        letter = c.coalesced(letter, leading_letter(_left(texts, letter)))
        letter = existing(letter, choices)
        return score_rows(batch, Reading(letter, c.is_equal(letter, targets)))


def _marked(texts: c.Strings) -> c.Strings:
    """Return the letter after the last marker that a letter follows."""
    after = c.after_last(texts, _MARKER)
    letter = first_letter(c.shortened(after, _REACH))
    # Example: "the answer is (B). I hope that this answer is clear." The last marker has no letter.
    other = c.both(c.is_present(after), c.is_missing(letter))
    pattern = rf"(?s).*{_MARKER}(?P<after>[^0-9A-Za-z]*[A-Za-z](?:[^0-9A-Za-z].*)?)\z"
    earlier = c.captured(c.choose(other, texts, None), pattern)["after"]
    return c.coalesced(letter, first_letter(c.shortened(earlier, _REACH)))


def _repeated(texts: c.Strings, choices: c.Lists) -> c.Strings:
    """Return the letter of the choice that each text repeats, else null."""
    short = c.is_short(texts, c.longest(c.flattened(choices)) + _MARKS)
    found = chosen_by_text(texts.filter(short), choices.filter(short))
    return c.scattered(short, found)


def _left(texts: c.Strings, letter: c.Strings) -> c.Strings:
    """Return the texts without a letter so far; null for the others."""
    return c.choose(c.is_missing(letter), texts, None)


scorer = ChoiceLetterScorer
