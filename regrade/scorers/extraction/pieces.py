"""Parts of texts, each with its place in the stored text, to show where an answer was read."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from regrade.scorers.extraction import columns as c

Offsets = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pieces:
    """A part of each text, with the byte of the stored text at which it begins."""

    text: c.Strings
    """The parts; null for a row without a part."""
    start: Offsets
    """First byte of each part, from 0; undefined for a row without a part."""

    @classmethod
    def whole(cls, texts: c.Strings) -> "Pieces":
        """Return whole texts as pieces."""
        return cls(texts, np.zeros(len(texts), np.int64))

    @property
    def present(self) -> c.Mask:
        """True for rows with a piece."""
        return c.is_present(self.text)

    @property
    def missing(self) -> c.Mask:
        """True for rows without a piece."""
        return c.is_missing(self.text)

    def matches(self, pattern: str) -> c.Mask:
        """True for pieces in which the pattern is found."""
        return c.is_match(self.text, pattern)

    def where(self, mask: c.Mask) -> "Pieces":
        """Return the pieces of the rows in which the mask is true."""
        return Pieces(c.kept(self.text, mask), self.start) if not c.is_all(mask) else self

    def without(self, mask: c.Mask) -> "Pieces":
        """Return the pieces of the rows in which the mask is false."""
        return self.where(c.negated(mask))

    def otherwise(self, other: "Pieces") -> "Pieces":
        """Return these pieces, with those of `other` in rows without a piece."""
        start = np.where(_flags(self.present), self.start, other.start)
        return Pieces(c.coalesced(self.text, other.text), start)

    def joined(self, following: "Pieces") -> "Pieces":
        """Return the pieces joined with those that follow them; in rows without a piece, the following ones."""
        text = c.choose(self.present, c.joined(self.text, following.text), following.text)
        return Pieces(text, np.where(_flags(self.present), self.start, following.start))

    def after_last(self, pattern: str) -> "Pieces":
        """Return the parts after the last match of a pattern; none if the pattern is not found."""
        after = c.after_last(self.text, pattern)
        return Pieces(after, self.start + c.byte_lengths(self.text) - c.byte_lengths(after))

    def after_first(self, pattern: str) -> "Pieces":
        """Return the parts after the first match of a pattern; none if the pattern is not found."""
        after = c.after_first(self.text, pattern)
        return Pieces(after, self.start + c.byte_lengths(self.text) - c.byte_lengths(after))

    def until(self, end: Offsets) -> "Pieces":
        """Return the parts before a byte of the stored text; a cut character is dropped."""
        cut = [
            None if text is None else text.encode()[: max(0, size)].decode(errors="ignore")
            for text, size in zip(self.text.to_pylist(), (end - self.start).tolist(), strict=True)
        ]
        return Pieces(pa.array(cut, pa.string()), self.start)

    def before_first(self, pattern: str) -> "Pieces":
        """Return the parts before the first match of a pattern; the whole piece if the pattern is not found."""
        return Pieces(c.before_first(self.text, pattern), self.start)

    def shortened(self, length: int) -> "Pieces":
        """Return the first `length` characters of each piece."""
        return Pieces(c.shortened(self.text, length), self.start)

    def trimmed(self) -> "Pieces":
        """Return the pieces without white space around them."""
        rest = self.left_trimmed()
        return Pieces(c.trimmed(rest.text), rest.start)

    def left_trimmed(self, characters: str = "") -> "Pieces":
        """Return the pieces without white space, or the given characters, at their start."""
        rest = c.left_trimmed(self.text, characters)
        return Pieces(rest, self.start + c.byte_lengths(self.text) - c.byte_lengths(rest))

    def right_trimmed(self, characters: str) -> "Pieces":
        """Return the pieces without the given characters at their end."""
        return Pieces(c.right_trimmed(self.text, characters), self.start)

    def split(self, pattern: str) -> Mapping[str, "Pieces"]:
        r"""Return the named groups of a pattern that begins with `\A`; none if the pattern is not found.

        The groups follow each other without a gap, from the start of the piece.
        """
        found: dict[str, Pieces] = {}
        start = self.start
        for name, text in c.captured(self.text, pattern).items():
            found[name] = Pieces(text, start)
            start = start + c.byte_lengths(text)
        return found

    def split_end(self, pattern: str) -> Mapping[str, "Pieces"]:
        r"""Return the named groups of a pattern that ends with `\z`, and that follow each other up to the end."""
        found: dict[str, Pieces] = {}
        start = self.start + c.byte_lengths(self.text)
        groups = list(c.captured(self.text, pattern).items())
        for name, text in reversed(groups):
            start = start - c.byte_lengths(text)
            found[name] = Pieces(text, start)
        return found


def characters(texts: c.Strings, pieces: Pieces) -> tuple[pa.Int32Array, pa.Int32Array]:
    """Return the first character of each piece in its text, and the one after its last, in code points from 0."""
    present = _flags(pieces.present)
    start = np.where(present, pieces.start, 0)
    end = start + c.byte_lengths(pieces.text)
    wide = present & ~_flags(c.is_ascii(texts))
    if wide.any():
        start[wide], end[wide] = _counted(texts.filter(pa.array(wide)), start[wide], end[wide])
    return pa.array(start, pa.int32(), mask=~present), pa.array(end, pa.int32(), mask=~present)


def _counted(texts: c.Strings, *bytes_before: Offsets) -> tuple[Offsets, ...]:
    """Convert numbers of bytes of each text to numbers of characters."""
    starts, first = c.starts_of_characters(texts)
    before = np.concatenate([[0], np.cumsum(starts, dtype=np.int64)])
    return tuple(before[first + number] - before[first] for number in bytes_before)


def _flags(mask: c.Mask) -> NDArray[np.bool_]:
    flags: NDArray[np.bool_] = mask.to_numpy(zero_copy_only=False)
    return flags
