"""Scorer of MMMU: the letter of questions with choices, and the authors' rule for open ones.

Yue et al. 2024, arXiv 2311.16502, and https://github.com/MMMU-Benchmark/MMMU (`eval/eval_utils.py`, `parse_open_response` and
`eval_open`). The authors draw a letter at random where they read none; here such an answer is unparsed.
"""

from functools import cache

import pyarrow as pa

from regrade.records.patterns import compiled
from regrade.scorers.base import Reading, answer_part, check_targets, score_rows
from regrade.scorers.choice_or_text import ChoiceOrTextScorer
from regrade.scorers.extraction import columns as c
from regrade.scorers.extraction.accepted import accepted_texts
from regrade.settings import ScorerName

_BEFORE_ANSWERS = (
    *("could be ", "so ", "is ", "thus ", "therefore ", "final ", "answer ", "result "),
    "=",  # in the last line only
)
_NOTHING = frozenset(":,.!?;'")
_WITH_COMMAS = compiled(r"-?\b\d{1,3}(?:,\d{3})+\b")
_PLAIN = compiled(r"-?(?:(\d+)(\.\d+)?|\.\d+)")
_EXPONENT = compiled(r"[eE][+-]?\d+")
_WORD = compiled(r"\w")
_LONGEST_EXPONENT = 40
"""Characters in which an exponent is looked for."""
_LONGEST_NUMBER = 400
"""Longest text that is read as a number, in characters."""
_KEPT = 200
"""Longest extracted answer stored in the scores, in characters; the comparison uses all of it."""


class MmmuScorer(ChoiceOrTextScorer):
    """Reads the letter, or looks for the target in what an answer states."""

    name: ScorerName = "mmmu"
    version = 2
    description = (
        "Of a question with choices the letter, as `choice_letter` reads it. Of an open question, the end of each line after words such "
        "as `is`, `so`, `answer` or, in the last line, `=`; if no line has one, the whole answer: a text must contain one of the accepted "
        "texts, without case, and a number in it must equal one to 2 decimals."
    )
    unparsed = "As `choice_letter`; of an open question an answer of white space only."

    def score_open(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the scores of rows without choices."""
        targets = c.column(batch, "target")
        check_targets(self.name, "a text", batch, c.is_match(targets, r"\S"))
        answers = answer_part(batch).trimmed()
        answers = answers.where(answers.matches(r"\S"))
        read, right = cache(stated), cache(is_stated)
        pairs = [
            (None, False)
            if answer is None or target is None
            else (read(answer)[-1], right(answer, target))
            for answer, target in zip(answers.text.to_pylist(), targets.to_pylist(), strict=True)
        ]
        found = c.shortened(pa.array([text for text, _ in pairs], pa.string()), _KEPT)
        correct = pa.array([is_right for _, is_right in pairs], pa.bool_())
        return score_rows(batch, Reading(found, correct, answers))


def is_stated(answer: str, target: str) -> bool:
    """Return True if an answer states one of the accepted texts of a target."""
    statements = stated(answer)
    given = {
        form
        for text in (*statements, *(number for text in statements for number in numbers(text)))
        for form in _normal(text)
    }
    accepted = [form for text in accepted_texts(target) for form in _normal(text)]
    texts = [form for form in accepted if isinstance(form, str)]
    return any(
        any(text in one for text in texts) if isinstance(one, str) else one in accepted
        for one in given
    )


def stated(answer: str) -> list[str]:
    """Return the parts of an answer that may be what it states: of each line the end after the last word that announces it."""
    answer = answer.strip().strip(".").lower()
    found = []
    lines = answer.split("\n")
    for place, line in enumerate(lines):
        words = _BEFORE_ANSWERS if place == len(lines) - 1 else _BEFORE_ANSWERS[:-1]
        ends = [line.rpartition(word)[2].strip() for word in words if word in line]
        # As the authors' loop does: an empty end gives way to the next one.
        shortest = ""
        for end in ends:
            if not shortest or len(end) < len(shortest):
                shortest = end
        if shortest and shortest not in _NOTHING:
            found.append(shortest)
    return found or [answer]


def numbers(text: str) -> list[str]:
    """Return the numbers in a text, in all forms of the authors' patterns."""
    found = _WITH_COMMAS.findall(text)
    for match in _PLAIN.finditer(text):
        whole, decimals = match[1], match[2]
        end = match.end()
        exponent = _EXPONENT.match(text[end : end + _LONGEST_EXPONENT])
        if exponent and whole:
            found.append(match[0] + exponent[0])
        ends = not exponent and text[end : end + 1] != ","
        if ends and (decimals or not whole or not _WORD.match(text[end : end + 1])):
            found.append(match[0])
        elif decimals:
            found.append(match[0].removesuffix(decimals))
    return found


def _normal(text: str) -> list[str | float]:
    """Return a number with 2 decimals, or a text without case; a single character with a space on either side."""
    text = text.strip()
    if len(text) <= _LONGEST_NUMBER:
        try:
            return [round(float(text.replace(",", "")), 2)]
        except ValueError:
            pass
    text = text.lower()
    return [f" {text}", f"{text} "] if len(text) == 1 else [text]


scorer = MmmuScorer
