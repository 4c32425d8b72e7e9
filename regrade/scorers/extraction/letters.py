r"""Extraction of the letter of a choice from columns of texts.

`B`, `b.`, `'B'`, `**B**`, `(B) foo` and `\boxed{\text{B}}` give a letter. The article in `A bird` and the pronoun in
`I think` do not. `A or B` and `A, C, D` name several letters, and are refused.
"""

from regrade.scorers.extraction import columns as c
from regrade.scorers.extraction.pieces import Pieces
from regrade.scorers.extraction.slots import Found, Statement

_WORDS = (
    "option|choice|letter|answer|the|therefore|thus|clearly|indeed|simply|definitely|most likely|likely|probably|then"
    "|still|now|only"
)
"""Words allowed between a marker and its letter."""
_GAP = rf"(?:[^0-9A-Za-z]|\\[A-Za-z]+|(?i:\b(?:{_WORDS})\b))*"
_AFTER = r"(?:[^0-9A-Za-z].*)?"
_LETTER = rf"(?P<lead>{_GAP})(?P<letter>[A-Za-z])(?P<rest>{_AFTER})\z"
_IN_COMMAND = r"\\(?:[A-Za-z]{2,}|[A-Za-mo-qsu-z])\z"
"""Text before a letter that ends the name of a command, as the `d` of `\\boxed{}`; not before one after `\\n` in JSON."""
_CONTRACTION = r"\A['\x{2019}][A-Za-z]"  # I'm
_CLOSED = r"\A[ *_]*[)\]}]"
_ENDS = r"\A[^0-9A-Za-z]*(?:\n|\z)"
_WORD_AFTER = r"\A[ *_]+[a-z]"
_WORD_AFTER_LETTER = r"\A[ *_]+(?:and|as|because|but|due|for|given|is|or|since|which|with)\b"
_MARKS = r"(?:[)\]}\x{FF08}\x{FF09}*_\"'`$\s]|\\(?:[,;:! ]|q?quad\b|(?:text|math)[a-z]*\{))*"
_OTHER = r"(?:(?i:option|choice) )?(?:[*_\"'`$]*[(\[][ *_]*[A-Z][ *_]*[)\]]|[*_\"'`$]*[A-HJ-Z](?:[^0-9A-Za-z'\x{2019}]|\z))"
_SEVERAL = rf"\A{_MARKS}(?:\\?[,/&;|+\x{{3001}}\x{{FF0C}}\x{{FF1B}}]|\b(?:and/or|and|or)\b|[\x{{548C}}\x{{6216}}]){_MARKS}(?:and\s|or\s)?{_OTHER}"
"""Text after a letter that is one of several, also with the comma, `and` and `or` of Chinese."""

_SCRIPTS = (
    "\uff21\uff22\uff23\uff24\uff25\uff26\uff27\uff28\uff29\uff2a",  # full width
    "أبجد",
    "অবডঢ",  # as in simple-evals
    "কখগঘ",
    "कखगघ",
)
"""Letters of choices in other scripts, from A."""
_OTHER_LETTERS = {
    letter: chr(ord("A") + place) for letters in _SCRIPTS for place, letter in enumerate(letters)
}
_OTHER_LETTER = rf"\A(?P<lead>[\s*_\"'`(\[\x{{FF08}}]*)(?P<letter>[{''.join(_OTHER_LETTERS)}])(?P<rest>(?s:[^\p{{L}}\p{{M}}].*)?)\z"

_ITEM = r"(?:\A|\n)[ \t*_>#-]*(?:(?i:option|choice) )?[(\[]?{}[*_ ]*[)\].:]"
_REJECTED = r"\A[^\n]*(?i:\b(?:incorrect|wrong|false|not (?:correct|right|true|the)|isn't|is not|cannot be)\b)"
_VERDICT = (
    r"(?P<letter>[A-Z])(?P<rest>[*_\"'`]*[)\]]?[*_\"'`]*(?: [^\n.]{0,60}[)\"'`])?),? (?:is|must be|would be|should be|has to be|seems)"
    r" (?:clearly |therefore |thus |indeed |definitely |actually |also )?(?:[*_]*(?:the |our |my ))?[*_]*(?:only |single |most )?"
    r"(?:correct|right|best|true|accurate|appropriate)\b"
)


def only_letter(texts: Pieces) -> Found:
    """Read the letter of each text that is only a letter with marks around it."""
    found = texts.split(rf"\A(?P<lead>{_GAP})(?P<letter>[A-Za-z])[^0-9A-Za-z]*\z")
    return _found(found["letter"].without(found["lead"].matches(_IN_COMMAND)))


def first_letter(pieces: Pieces, statement: Statement) -> Found:
    """Read the letter at the start of each piece. Several letters are refused, unless the first statement counts.

    Expects the text after a marker such as `answer is`, not a whole answer: a piece that begins with a word has no letter.
    """
    other = other_letter(pieces)
    if c.is_any(other.place.present):
        return other.otherwise(first_letter(pieces.where(other.open), statement))
    found = pieces.split(rf"(?s)\A{_LETTER}")
    lead, letter, rest = found["lead"], found["letter"], found["rest"]
    letter = letter.without(c.either(lead.matches(_IN_COMMAND), rest.matches(_CONTRACTION)))
    bracketed = c.both(lead.matches(r"[(\[{][ *_]*\z"), rest.matches(_CLOSED))
    article = c.both(
        c.both(letter.matches("[AI]"), rest.matches(_WORD_AFTER)),
        c.negated(rest.matches(_WORD_AFTER_LETTER)),
    )
    capital = c.both(letter.matches("[A-Z]"), c.negated(article))
    alone = c.either(capital, rest.matches(_ENDS))
    letter = letter.where(c.either(bracketed, alone))
    if statement == "first":
        return _found(letter)
    several = c.both(letter.present, rest.matches(_SEVERAL))
    found_letter = _found(letter.without(several))
    return Found(found_letter.value, found_letter.place, several)


def other_letter(pieces: Pieces) -> Found:
    """Read the full-width, Arabic, Bengali or Hindi letter that stands alone at the start of each piece."""
    letter = pieces.split(_OTHER_LETTER)["letter"]
    value = c.mapped(letter.text, _OTHER_LETTERS.get)
    return Found(value, letter, c.falsy(c.is_equal(value, "")))


def leading_letter(texts: Pieces) -> Found:
    """Read the capital letter at the start of each answer, as in `(B) foo`, `B. foo` or on a line of its own.

    Lower case letters do not count, because `(a) First, ...` numbers the parts of an answer. A text that discusses the
    options, as in `A: incorrect`, does not begin with its answer.
    """
    pattern = r"""\A(?P<lead>[\s*_"'`]*[(\[]?)(?P<letter>[A-Z])(?P<rest>(?s:(?:[*_]*[)\].:]|[*_]+|[ \t]*\n).*))\z"""
    found = texts.split(pattern)
    rejected = found["rest"].matches(_REJECTED)
    listed = found["rest"].matches(_ITEM.format("[A-Z]"))
    return _found(found["letter"].without(c.either(rejected, listed)))


def correct_letter(texts: Pieces) -> Found:
    """Read the only letter that each text calls correct, as in `B is the correct answer`; refuse several."""
    called = texts.where(texts.matches(rf"(?:\A|[^0-9A-Za-z]){_VERDICT}"))
    letters = [
        called.split(rf"\A(?P<before>(?s:{text}))(?P<gap>\A|[^0-9A-Za-z]){_VERDICT}")["letter"]
        for text in (".*?", ".*")
    ]
    same = c.is_equal(letters[0].text, letters[1].text)
    found = _found(letters[1].where(same))
    return Found(found.value, found.place, c.both(letters[1].present, c.negated(same)))


def _found(letter: Pieces) -> Found:
    value = c.uppered(letter.text)
    return Found(value, letter, c.falsy(c.is_equal(value, "")))
