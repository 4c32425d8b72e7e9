r"""The letter of a choice, as people and models write it, read out of columns of texts.

`B`, `b.`, `**B**`, `(B) foo`, `\boxed{\text{B}}` are letters. The article of `A bird` and the pronoun of
`I think` are not.
"""

from regrade.scorers.extraction import columns as c

_GAP = r"(?:[^0-9A-Za-z]|\\[A-Za-z]+|(?i:option|choice|letter)\b)*"
_LETTER = rf"(?P<lead>{_GAP})(?P<letter>[A-Za-z])(?P<rest>(?:[^0-9A-Za-z'\x{{2019}}].*)?)\z"
_CLOSED = r"\A[ *_]*[)\]}]"
_ENDS = r"\A[^0-9A-Za-z]*(?:\n|\z)"
_WORD_AFTER = r"\A[ *_]+[a-z]"
_WORD_AFTER_LETTER = r"\A[ *_]+(?:and|as|because|due|given|is|or|since|which)\b"


def only_letter(texts: c.Strings) -> c.Strings:
    """Return the letter that each text is, but for marks; null where it is anything else."""
    found = c.captured(texts, rf"\A{_GAP}(?P<letter>[A-Za-z])[^0-9A-Za-z]*\z")
    return c.uppered(found["letter"])


def first_letter(texts: c.Strings) -> c.Strings:
    """Return the letter that what follows `answer is` begins with; null where it begins with a word."""
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
    """Return the capital that an answer begins with as `(B) foo`, `B. foo` or on a line of its own; else null.

    Small letters do not count: `(a) First, ...` numbers the parts of an answer.
    """
    pattern = r"""\A[\s*_"'`]*[(\[]?(?P<letter>[A-Z])(?:[*_]*[)\].:]|[*_]+|[ \t]*\n)"""
    return c.captured(texts, pattern)["letter"]
