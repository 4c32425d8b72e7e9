"""Normalise texts before comparing: case, spaces, quotes, emphasis, final period."""

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
"""Layers of marks that are removed; `**"Paris".**` has three."""


def comparable(texts: c.Strings) -> c.Strings:
    """Return texts in lower case, with single spaces, without a final period and surrounding quotes and emphasis.

    Marks are kept if nothing else would be left: `.` stays `.`.
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
