"""Text answers: targets with several accepted answers, and comparison as in SQuAD.

SQuAD: Rajpurkar et al. 2016, arXiv 1606.05250.
"""

import json
from collections.abc import Sequence

import numpy as np

from regrade.scorers.extraction import columns as c
from regrade.scorers.extraction.numerals import whole_number

_DASHES = r"[\p{Pd}\x{2212}/_]"
_PUNCTUATION = r"[\p{P}$€£¥`^~|<>=]"
_HASH, _POINT, _MINUS = "\ue000", "\ue001", "\ue002"
"""Placeholders for punctuation that is kept, because it changes the meaning: `C#`, `3.5`, `-5`."""


def stored_target(texts: Sequence[str]) -> str:
    """Return the target of a question with several accepted answers: a JSON list; a single answer is stored unchanged."""
    if len(texts) == 1 and accepted_texts(texts[0]) == list(texts):
        return texts[0]
    return json.dumps(list(texts), ensure_ascii=False)


def accepted_texts(target: str) -> list[str]:
    """Return the accepted answers of a target: the texts of a JSON list of texts, or else the target itself."""
    if target.startswith('["'):
        try:
            found = json.loads(target)
        except (ValueError, RecursionError):
            return [target]
        if all(isinstance(text, str) for text in found):
            return list(found)
    return [target]


def is_accepted(texts: c.Strings, targets: c.Strings) -> c.Mask:
    """True for texts that equal one of the accepted answers of their target, as words or as numbers."""
    distinct = targets.unique()
    chosen = c.lists(
        [accepted_texts(target or "") for target in distinct.to_pylist()],
        c.positions(targets, distinct),
    )
    counts = c.list_lengths(chosen)
    owner = np.repeat(np.arange(len(texts)), counts)
    accepted = c.flattened(chosen)
    same_words = c.is_equal(words(accepted), c.taken(words(texts), owner))
    same_number = c.is_equal(whole_number(accepted), c.taken(whole_number(texts), owner))
    hits = c.either(same_words, same_number).to_numpy(zero_copy_only=False)
    right = np.zeros(len(texts), bool)
    right[owner[hits]] = True
    return c.mask(right)


def words(texts: c.Strings) -> c.Strings:
    """Return texts in lower case, without articles, punctuation and repeated white space.

    The point of `3.5`, the minus of `-5` and the `#` of `C#` are kept. If nothing else is left, articles or punctuation
    are kept.
    """
    lower = c.trimmed(c.replaced(c.lowered(texts), r"[\s\p{Z}]+", " "))
    plain = c.replaced(lower, "#", _HASH)
    for _ in range(2):  # matches cannot overlap: 1.2.3
        plain = c.replaced(plain, r"([0-9])\.([0-9])", rf"\1{_POINT}\2")
        plain = c.replaced(plain, r"([0-9]),([0-9]{3})", r"\1\2")
    plain = c.replaced(plain, r"(\A|[\s($])[-\x{2212}]([$]?[0-9])", rf"\1{_MINUS}\2")
    plain = c.replaced(plain, _DASHES, " ")
    plain = c.replaced(plain, _PUNCTUATION, "")
    without_articles = c.replaced(plain, r"\b(?:a|an|the)\b", " ")
    results = [
        c.trimmed(c.replaced(result, r"[\s\p{Z}]+", " ")) for result in (without_articles, plain)
    ]
    return c.coalesced(
        *(c.choose(c.is_equal(result, ""), None, result) for result in results), lower
    )
