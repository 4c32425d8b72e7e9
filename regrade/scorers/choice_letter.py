"""Scorer that reads the letter of a choice from the text of an answer; of several statements the last counts."""

import pyarrow as pa

from regrade.scorers.base import Reading, TargetKind, answer_part, score_rows
from regrade.scorers.extraction import columns as c
from regrade.scorers.extraction.choices import chosen_by_text, existing, target_letters
from regrade.scorers.extraction.letters import (
    correct_letter,
    first_letter,
    leading_letter,
    only_letter,
)
from regrade.scorers.extraction.pieces import Pieces
from regrade.scorers.extraction.slots import (
    IN_SENTENCE,
    LOCALISED,
    STATEMENTS,
    STRUCTURED,
    Found,
    Slots,
    Statement,
    read,
)
from regrade.settings import ScorerName

_RIGHT_ONE = (
    r"""(?i:(?:correct|right|best|appropriate|accurate) (?:option|choice|one|letter)["'*_]*[ \t]*"""
    r"""(?:(?:is|would be|should be|must be)\b|:|=))"""
)
"""Markers of multiple choice: `the correct option is`."""
_A_LETTER = r"(?P<content>[ \t*]*[(\[]?[A-Z](?:[^A-Za-z'\n][^\n]*)?)(?:\n|\z)"
"""Content after `A:`, which is a marker if a letter follows, and the label of an option otherwise."""
_STATEMENTS = (
    *((marker, _A_LETTER if marker.endswith("A:") else holds) for marker, holds in STATEMENTS),
    (_RIGHT_ONE, None),
)
_MARKS = 16
"""Most quotes, emphasis and white space around a repeated choice, in characters."""


class ChoiceLetterScorer:
    """Reads the letter from the text, or finds the choice that the text repeats."""

    name: ScorerName = "choice_letter"
    version = 4
    description = (
        "The letter that is the whole text; else the choice whose text is the whole text; else the letter, or the text "
        "of a choice, in the last `\\boxed{}`, `<answer>` or JSON field `answer`; else after the last `answer is`, "
        "`answer:` (in the 15 languages of MMMLU and MMLU) or `correct option is`; else the only one called correct, as in `B is correct`; else the letter that the text begins with, "
        "as in `(B) because`."
    )
    unparsed = (
        "An answer that gives no letter in one of these ways, several letters at once, or one beyond the row's choices; "
        "a list of the options with a remark to each."
    )
    targets: TargetKind = "letter"
    columns: tuple[str, ...] = ("target", "choices", "text")

    def __init__(self, *, statement: Statement = "last") -> None:
        """Choose the statement that counts, if a text has several."""
        self.statement: Statement = statement

    def score(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a row of `SCORE_SCHEMA` for each row; see `Scorer.score`."""
        targets = target_letters(self.name, batch)
        choices: c.Lists = batch.column("choices")
        texts = answer_part(batch)

        def read_slot(slots: Slots) -> Found:
            found = first_letter(slots.content, self.statement)
            stated = _stated(slots.content, found)
            if c.is_any(stated.present):
                found = found.otherwise(first_letter(stated, self.statement))
            named = slots.content.where(found.open).before_first("\n").trimmed()
            return found.otherwise(_repeated(named, choices))

        localised = texts.matches(LOCALISED[0][0])
        found = only_letter(texts.without(localised))
        found = found.otherwise(_repeated(texts.where(found.open), choices))
        tables = [(STRUCTURED, texts), (_STATEMENTS, texts)]
        if c.is_any(localised):
            tables.insert(1, ((*_STATEMENTS, *LOCALISED), texts.where(localised)))
        for table, rows in tables:
            in_slots, _ = read(rows.where(found.open), table, read_slot, self.statement)
            found = found.otherwise(in_slots)
        found = found.otherwise(correct_letter(texts.where(found.open)))
        found = found.otherwise(leading_letter(texts.where(found.open)))
        letter = existing(found.value, choices)
        return score_rows(batch, Reading(letter, c.is_equal(letter, targets), found.place))


def _stated(content: Pieces, found: Found) -> Pieces:
    """Return what a sentence in a slot states, such as `the answer is B`."""
    return content.where(found.open).after_last(IN_SENTENCE)


def _repeated(texts: Pieces, choices: c.Lists) -> Found:
    """Return the letter of the choice that each text repeats."""
    texts = texts.trimmed()
    short = c.is_short(texts.text, c.longest(choices) + _MARKS)
    letter = c.scattered(short, chosen_by_text(texts.text.filter(short), choices.filter(short)))
    return Found(letter, texts.where(c.is_present(letter)), c.is_equal(letter, ""))


scorer = ChoiceLetterScorer
