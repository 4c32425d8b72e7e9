r"""Operations on columns, used by all scorers. They run in Arrow, without a Python loop over rows.

Patterns run in RE2, whose time is linear in the text for any pattern, because model output is untrusted.
In RE2, `[0-9]` and `\d` match only ASCII digits. Null stays null, and matches no pattern.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Strings: TypeAlias = pa.StringArray
Mask: TypeAlias = pa.BooleanArray
Lists: TypeAlias = "pa.Array[Any]"  # subscriptable only in the stubs
"""One list per row."""


def column(batch: pa.RecordBatch, name: str) -> Strings:
    """Return a string column of a batch."""
    found: Strings = batch.column(name)  # type: ignore[assignment]  # the stubs do not know the type of a column
    return found


def flags(batch: pa.RecordBatch, name: str) -> Mask:
    """Return a boolean column of a batch."""
    return cast("Mask", batch.column(name))


def is_match(strings: Strings, pattern: str) -> Mask:
    """True for strings in which the pattern is found; false for nulls."""
    return falsy(_mask("match_substring_regex", strings, pattern))


def is_equal(left: Strings, right: Strings | str) -> Mask:
    """True for equal strings; false for nulls."""
    return falsy(_mask("equal", left, right))


def is_present(strings: Strings) -> Mask:
    """True for strings that are not null."""
    return _mask("is_valid", strings)


def is_missing(strings: Strings) -> Mask:
    """True for nulls."""
    return _mask("is_null", strings)


def falsy(mask: Mask) -> Mask:
    """Return the mask with its nulls replaced by false."""
    return _mask("fill_null", mask, False)


def both(left: Mask, right: Mask) -> Mask:
    """True for rows in which both masks are true."""
    return _mask("and_", left, right)


def either(left: Mask, right: Mask) -> Mask:
    """True for rows in which at least one mask is true."""
    return _mask("or_", left, right)


def negated(mask: Mask) -> Mask:
    """True for rows in which the mask is false."""
    return _mask("invert", mask)


def mask(flags: NDArray[np.bool_]) -> Mask:
    """Return a mask of NumPy's flags."""
    return pa.array(flags)


def is_any(mask: Mask) -> bool:
    """True if the mask is true for at least one row."""
    return mask.true_count > 0


def is_all(mask: Mask) -> bool:
    """True if the mask is true for all rows."""
    return mask.true_count == len(mask)


def choose(mask: Mask, yes: Strings | str | None, no: Strings | str | None) -> Strings:
    """Return `yes` for rows in which the mask is true, `no` for the others."""
    sides = [
        side if isinstance(side, pa.Array) else pa.scalar(side, pa.string()) for side in (yes, no)
    ]
    return _strings("if_else", mask, *sides)


def joined(*parts: Strings | str) -> Strings:
    """Return the parts of each row, concatenated."""
    return _strings("binary_join_element_wise", *parts, "")


def replaced(strings: Strings, pattern: str, by: str) -> Strings:
    r"""Return strings with every match replaced; `by` may refer to groups as `\1`."""
    return _strings("replace_substring_regex", strings, pattern=pattern, replacement=by)


def captured(strings: Strings, pattern: str) -> Mapping[str, Strings]:
    r"""Return the text of each named group of a pattern; null if the pattern is not found.

    RE2 matches a pattern that ends in `\z` backwards from the end of the text, so the cost depends only on the
    length of the match.
    """
    found = pc.call_function("extract_regex", [strings], pc.ExtractRegexOptions(pattern))
    return {field.name: _strings("struct_field", found, field.name) for field in found.type.fields}


def after_last(strings: Strings, pattern: str) -> Strings:
    """Return the text after the last match of a pattern; null if the pattern is not found."""
    found = is_match(strings, pattern)
    pieces = pc.split_pattern_regex(strings.filter(found), pattern)
    ends = pieces.offsets.to_numpy()[1:] - 1
    values: Strings = pieces.values  # type: ignore[assignment]
    return scattered(found, taken(values, ends))


def after_first(strings: Strings, pattern: str) -> Strings:
    """Return the text after the first match of a pattern; null if the pattern is not found."""
    found = is_match(strings, pattern)
    pieces = pc.split_pattern_regex(strings.filter(found), pattern, max_splits=1)
    return scattered(found, _strings("list_element", pieces, 1))


def before_first(strings: Strings, pattern: str) -> Strings:
    """Return the text before the first match of a pattern; the whole text if the pattern is not found."""

    def heads(some: Strings) -> Strings:
        pieces = pc.split_pattern_regex(some, pattern, max_splits=1)
        return _strings("list_element", pieces, 0)

    return rows_changed(strings, is_match(strings, pattern), heads)


def trimmed(strings: Strings) -> Strings:
    """Return strings without white space around them."""
    return _strings("utf8_trim_whitespace", strings)


def lowered(strings: Strings) -> Strings:
    """Return strings in lower case."""
    return _strings("utf8_lower", strings)


def uppered(strings: Strings) -> Strings:
    """Return strings in upper case."""
    return _strings("utf8_upper", strings)


def shortened(strings: Strings, length: int) -> Strings:
    """Return the first `length` characters."""
    return _strings("utf8_slice_codeunits", strings, 0, length)


def left_trimmed(strings: Strings, characters: str = "") -> Strings:
    """Return strings without white space, or the given characters, at their start."""
    if characters:
        return _strings("utf8_ltrim", strings, characters)
    return _strings("utf8_ltrim_whitespace", strings)


def right_trimmed(strings: Strings, characters: str) -> Strings:
    """Return strings without the given characters at their end."""
    return _strings("utf8_rtrim", strings, characters)


def byte_lengths(strings: Strings) -> NDArray[np.int64]:
    """Return the length of each string in bytes; 0 for null."""
    return _counts("binary_length", strings)


def is_ascii(strings: Strings) -> Mask:
    """True for strings of ASCII characters only; false for nulls."""
    return falsy(_mask("string_is_ascii", strings))


def starts_of_characters(strings: Strings) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return a mask of the first bytes of characters in the joined strings, and the byte at which each string begins."""
    buffers = strings.buffers()
    joined = np.frombuffer(memoryview(buffers[2] or b""), np.uint8)
    offsets = np.frombuffer(memoryview(buffers[1] or b""), np.int32)
    begins = offsets[strings.offset : strings.offset + len(strings)].astype(np.int64)
    return (joined & 0xC0) != 0x80, begins


def taken(strings: Strings, indices: NDArray[np.int64]) -> Strings:
    """Return the strings at the indices, which may repeat."""
    return _strings("take", strings, pa.array(indices))


def longest(lists: Lists) -> NDArray[np.int64]:
    """Return the length of the longest string of each list in characters; 0 for an empty list."""
    counts = list_lengths(lists)
    lengths = _counts("utf8_length", flattened(lists))
    result = np.zeros(len(lists), np.int64)
    if lengths.size:
        starts = np.cumsum(counts) - counts
        result[counts > 0] = np.maximum.reduceat(lengths, starts[counts > 0])
    return result


def mapped(strings: Strings, change: Callable[[str], str | None]) -> Strings:
    """Return the strings changed by a Python function, which is called once per distinct string."""
    distinct: list[str | None] = strings.unique().to_pylist()
    changed = [None if text is None else change(text) for text in distinct]
    return _strings("take", pa.array(changed, pa.string()), positions(strings, strings.unique()))


def positions(strings: Strings, values: Strings) -> "pa.Int32Array":
    """Return the position of each string in `values`, which hold null if `strings` do."""
    return pc.index_in(strings, value_set=values)


def is_short(strings: Strings, lengths: NDArray[np.int64]) -> Mask:
    """True for strings of at most the given lengths in characters; false for nulls."""
    short = _counts("utf8_length", strings) <= lengths
    return both(is_present(strings), mask(short))


def coalesced(*columns: Strings) -> Strings:
    """Return the first value of each row that is not null."""
    return _strings("coalesce", *columns)


def scattered(mask: Mask, values: Strings) -> Strings:
    """Return a column with `values` in the rows in which the mask is true, and null in the others."""
    return _strings("replace_with_mask", pa.nulls(len(mask), pa.string()), mask, values)


def kept(strings: Strings, mask: Mask) -> Strings:
    """Return the strings of rows in which the mask is true, and null in the others.

    Unlike `choose`, this drops the bytes of the other rows, so that later kernels do not read them.
    """
    return scattered(mask, strings.filter(mask))


def rows_changed(strings: Strings, mask: Mask, change: Callable[[Strings], Strings]) -> Strings:
    """Return the strings with `change` applied to the rows of the mask; it is not called for an empty mask."""
    if not is_any(mask):
        return strings
    return _strings("replace_with_mask", strings, mask, change(strings.filter(mask)))


def list_lengths(lists: Lists) -> NDArray[np.int64]:
    """Return the length of each list; 0 for null."""
    counts: NDArray[np.int64] = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    return np.nan_to_num(counts).astype(np.int64)


def lists(values: Sequence[Sequence[str]], places: "pa.Int32Array") -> Lists:
    """Return the list of strings at each place."""
    column: Lists = pa.array(values, pa.list_(pa.string()))
    return column.take(places)


def flattened(lists: Lists) -> Strings:
    """Return the strings of all lists as a single column."""
    return _strings("list_flatten", lists)


# The stubs of the kernels neither accept Python scalars nor know the type of the result.
def _strings(kernel: str, *columns: object, **options: object) -> Strings:
    result: Strings = getattr(pc, kernel)(*columns, **options)
    return result


def _counts(kernel: str, strings: Strings) -> NDArray[np.int64]:
    lengths = pc.call_function(kernel, [strings]).fill_null(0)
    counts: NDArray[np.int64] = lengths.to_numpy(zero_copy_only=False).astype(np.int64)
    return counts


def _mask(kernel: str, *columns: object, **options: object) -> Mask:
    result: Mask = getattr(pc, kernel)(*columns, **options)
    return result
