"""Texts in a form in which they are compared: without what changes nothing about an answer."""

from regrade.scorers.extraction import columns as c

_PAIRS = (
    (r"\*\*\*", r"\*\*\*"),
    (r"\*\*", r"\*\*"),
    (r"\*", r"\*"),
    ("__", "__"),
    ("_", "_"),
    ("`", "`"),
    ('"', '"'),
    ("'", "'"),
    (r"\x{201C}", r"\x{201D}"),
    (r"\x{2018}", r"\x{2019}"),
    (r"\x{AB}", r"\x{BB}"),
)
_DEEPEST = 3
"""Layers of marks that are taken off, such as the three of `**"Paris".**`."""


def comparable(texts: c.Strings) -> c.Strings:
    """Return texts in lower case, with single blanks, without one trailing period, quotes and emphasis around them.

    What would leave nothing is not taken off: `.` stays `.`.
    """
    plain = c.lowered(c.trimmed(c.replaced(texts, r"[\s\p{Z}]+", " ")))
    for _ in range(_DEEPEST):
        plain = c.rows_changed(plain, c.is_match(plain, _MARKED), _without_marks)
    return plain


_ENCLOSED = "|".join(f"{before}.+{after}" for before, after in _PAIRS)
_MARKED = rf"\A(?:.*[^.]\.|{_ENCLOSED})\z"


def _without_marks(texts: c.Strings) -> c.Strings:
    texts = c.replaced(texts, r"([^.])\.\z", r"\1")
    for before, after in _PAIRS:
        texts = c.replaced(texts, rf"\A{before}(.*[^ ].*){after}\z", r"\1")
    return c.trimmed(texts)
