r"""Extraction of the letter of a choice from columns of texts.

`B`, `b.`, `**B**`, `(B) foo` and `\boxed{\text{B}}` give a letter. The article in `A bird` and the pronoun in
`I think` do not.
"""

from regrade.scorers.extraction import columns as c

_GAP = r"(?:[^0-9A-Za-z]|\\[A-Za-z]+|(?i:option|choice|letter)\b)*"
_LETTER = rf"(?P<lead>{_GAP})(?P<letter>[A-Za-z])(?P<rest>(?:[^0-9A-Za-z'\x{{2019}}].*)?)\z"
_CLOSED = r"\A[ *_]*[)\]}]"
_ENDS = r"\A[^0-9A-Za-z]*(?:\n|\z)"
_WORD_AFTER = r"\A[ *_]+[a-z]"
_WORD_AFTER_LETTER = r"\A[ *_]+(?:and|as|because|due|given|is|or|since|which)\b"


def only_letter(texts: c.Strings) -> c.Strings:
    """Return the letter if a text is only a letter with marks around it, else null."""
    found = c.captured(texts, rf"\A{_GAP}(?P<letter>[A-Za-z])[^0-9A-Za-z]*\z")
    return c.uppered(found["letter"])


def first_letter(texts: c.Strings) -> c.Strings:
    """Return the letter at the start of each text; null if the text begins with a word.

    Expects the text after `answer is`, not a whole answer.
    """
    found = c.captured(texts, rf"(?s)\A{_LETTER}")
    letter, rest = found["letter"], found["rest"]
    bracketed = c.both(c.is_match(found["lead"], r"[(\[{][ *_]*\z"), c.is_match(rest, _CLOSED))
    article = c.both(
        c.both(c.is_match(letter, "[AI]"), c.is_match(rest, _WORD_AFTER)),
        c.negated(c.is_match(rest, _WORD_AFTER_LETTER)),
    )
    capital = c.both(c.is_match(letter, "[A-Z]"), c.negated(article))
    alone = c.either(capital, c.is_match(rest, _ENDS))
    return c.choose(c.either(bracketed, alone), c.uppered(letter), None)


def leading_letter(texts: c.Strings) -> c.Strings:
    """Return the capital letter at the start of each answer, as in `(B) foo`, `B. foo` or on a separate line; else null.

    Lower case letters do not count, because `(a) First, ...` numbers the parts of an answer.
    """
    pattern = r"""\A[\s*_"'`]*[(\[]?(?P<letter>[A-Z])(?:[*_]*[)\].:]|[*_]+|[ \t]*\n)"""
    return c.captured(texts, pattern)["letter"]
