r"""Patterns over texts that a model wrote, or that hold such a text. RE2 searches: its time is linear in the text for any pattern.

They are written as for Python's `re`, and `\w`, `\d`, `\s` and their complements are the same characters; `\b` and `\B` know ASCII only.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache, cached_property, partial
from typing import Any

_TOKEN = re.compile(r"\\u[0-9a-fA-F]{4}|\\.|\[\^?\]?(?:\\.|[^\]\\])*+\]?|.", re.DOTALL)
"""A part of a pattern: an escape, brackets, or a character."""
_CHARACTER = re.compile(r"\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL)
_LINES = re.compile(r"\(\?[is]*m")
_MOST_CHARACTERS = 0x40000
"""Code point above all letters, digits and spaces; the planes beyond are for private use and variants."""
_LETTERS = r"[^\W\d_]"
_TRIED = ("", "a", "0", " ", "\n")


class PatternError(ValueError):
    """A text that is no pattern, or a pattern that RE2 cannot search for."""


class Pattern:
    """A pattern with the methods of `re.Pattern`, compiled when it is first used."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    def search(self, text: str, start: int = 0) -> "re.Match[str] | None":
        """Return the first match from a character on, or None."""
        return self._for(text).search(text, start)

    def match(self, text: str) -> "re.Match[str] | None":
        """Return the match at the beginning of a text, or None."""
        return self._for(text).match(text)

    def fullmatch(self, text: str) -> "re.Match[str] | None":
        """Return the match of a whole text, or None."""
        return self._for(text).fullmatch(text)

    def finditer(self, text: str) -> "Iterator[re.Match[str]]":
        """Yield all matches in order."""
        return self.checked()._for(text).finditer(text)

    def findall(self, text: str) -> list[Any]:
        """Return the text of each match, or of its groups."""
        return self.checked()._for(text).findall(text)

    def sub(self, by: "Callable[[re.Match[str]], str]", text: str) -> str:
        """Return a text with each match replaced by what a function returns for it."""
        return self.checked()._for(text).sub(by, text)

    def checked(self) -> "Pattern":
        """Return the pattern.

        Raises:
            PatternError: If RE2 cannot search for all its matches. Where one is empty, pyre2 goes on in the midst of a character.
        """
        if self._has_empty_matches:
            raise PatternError(f"the pattern '{self.pattern}' matches an empty text.")
        return self

    def _for(self, text: str) -> "re.Pattern[str]":
        return self._of_ascii if text.isascii() else self._of_any

    @cached_property
    def _of_any(self) -> "re.Pattern[str]":
        return _compiled(self.pattern, is_ascii=False)

    @cached_property
    def _of_ascii(self) -> "re.Pattern[str]":
        return _compiled(self.pattern, is_ascii=True)

    @cached_property
    def _has_empty_matches(self) -> bool:
        return any(
            found is not None and found.start() == found.end()
            for found in map(self._of_any.search, _TRIED)
        )


class InAscii(dict[int, int]):
    """For each character one of ASCII: digits for digits, letters for letters, spaces for spaces. A text in ASCII is searched from any place at once."""

    def __missing__(self, code: int) -> int:
        """Return the code point of such a character."""
        character = chr(code)
        if not character.isascii():
            kinds = {"0": str.isdecimal, "a": str.isalnum, " ": str.isspace}
            character = next((one for one, is_kind in kinds.items() if is_kind(character)), "?")
        self[code] = ord(character)
        return self[code]


IN_ASCII = InAscii()


def compiled(pattern: str) -> Pattern:
    """Return a pattern in the syntax of `re`; flags stand at its beginning, as in `(?im)`."""
    return Pattern(pattern)


@cache
def _compiled(pattern: str, *, is_ascii: bool) -> "re.Pattern[str]":
    import re2

    if not hasattr(re2, "FallbackPattern"):
        raise ImportError(
            f"'{re2.__file__}' is not of the package pyre2. Uninstall google-re2, whose module has the same name, and install pyre2 again."
        )
    try:
        re.compile(pattern)
        found = re2.compile(_spelled(pattern, is_ascii=is_ascii))
    except (re.error, re2.error) as error:
        raise PatternError(f"the pattern '{pattern}' is no regular expression: {error}.") from error
    if not isinstance(found, re2.Pattern):  # pyre2 would search with `re`
        raise PatternError(
            f"the pattern '{pattern}' has what RE2, which searches in linear time, does not know: look-around, back-references, possessive "
            "repetition, repetition of more than 1,000 times, or `\\W`, `\\D` or `\\S` among other characters in brackets."
        )
    return found  # type: ignore[no-any-return]


def _spelled(pattern: str, *, is_ascii: bool) -> str:
    r"""Return a pattern as RE2 spells it, whose own `\w`, `\d` and `\s` are others: with those of `re`, for texts in ASCII or for all."""
    end = "$" if _LINES.match(pattern) else r"(?:\n?\z)"
    named = partial(_characters, is_ascii=is_ascii)
    return "".join(
        end
        if token == "$"
        else _brackets(token, named)
        if token[0] == "["
        else _outside(token, named)
        for token in _TOKEN.findall(pattern)
    )


def _outside(token: str, named: Callable[[str], str]) -> str:
    if token[0] != "\\" or token[1].lower() not in "wds":
        return _literal(token)
    return f"[{'^' * token[1].isupper()}{named(token.lower())}]"


def _brackets(token: str, named: Callable[[str], str]) -> str:
    if token in (_LETTERS, r"[^\W\d]"):
        return f"[{named(_LETTERS)}{'_' * (token[-2] == 'd')}]"
    parts = _CHARACTER.findall(token)
    return "".join(
        named(part) if part in (r"\w", r"\d", r"\s") else _literal(part) for part in parts
    )


def _literal(token: str) -> str:
    return re.escape(chr(int(token[2:], 16))) if token[:2] == r"\u" else token


@cache
def _characters(name: str, *, is_ascii: bool) -> str:
    """Return the ranges of characters of a class of `re`."""
    every = "".join(map(chr, range(128))) if is_ascii else _every_character()
    found = re.findall(f"{name}+", every)
    return "".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else run for run in found)


@cache
def _every_character() -> str:
    return "".join(map(chr, range(_MOST_CHARACTERS)))
