r"""The few operations on columns that scorers are made of; all of them run in Arrow, without a loop over rows.

Patterns run in RE2, whose time is linear in the text whatever the pattern: model output is not trusted.
`[0-9]` and `\d` are ASCII digits only there. A null stays null, and matches nothing.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Strings: TypeAlias = pa.StringArray
Mask: TypeAlias = pa.BooleanArray
Lists: TypeAlias = "pa.Array[Any]"  # subscriptable in the stubs only
"""One list per row."""


def column(batch: pa.RecordBatch, name: str) -> Strings:
    """Return a column of strings of a batch."""
    found: Strings = batch.column(name)  # type: ignore[assignment]  # the stubs know no types of columns
    return found


def flags(batch: pa.RecordBatch, name: str) -> Mask:
    """Return a column of booleans of a batch."""
    return cast("Mask", batch.column(name))


def is_match(strings: Strings, pattern: str) -> Mask:
    """Return where a pattern is found; false for nulls."""
    return falsy(_mask("match_substring_regex", strings, pattern))


def is_equal(left: Strings, right: Strings | str) -> Mask:
    """Return where strings are equal; false for nulls."""
    return falsy(_mask("equal", left, right))


def is_present(strings: Strings) -> Mask:
    """Return where strings are not null."""
    return _mask("is_valid", strings)


def is_missing(strings: Strings) -> Mask:
    """Return where strings are null."""
    return _mask("is_null", strings)


def falsy(mask: Mask) -> Mask:
    """Return a mask with false for nulls."""
    return _mask("fill_null", mask, False)


def both(left: Mask, right: Mask) -> Mask:
    """Return where both are true."""
    return _mask("and_", left, right)


def either(left: Mask, right: Mask) -> Mask:
    """Return where at least one is true."""
    return _mask("or_", left, right)


def negated(mask: Mask) -> Mask:
    """Return where a mask is false."""
    return _mask("invert", mask)


def is_any(mask: Mask) -> bool:
    """Return whether a mask is true anywhere."""
    return mask.true_count > 0


def choose(mask: Mask, yes: Strings | str | None, no: Strings | str | None) -> Strings:
    """Return `yes` where the mask is true, else `no`."""
    sides = [
        side if isinstance(side, pa.Array) else pa.scalar(side, pa.string()) for side in (yes, no)
    ]
    return _strings("if_else", mask, *sides)


def joined(*parts: Strings | str) -> Strings:
    """Return the parts of each row, one after the other."""
    return _strings("binary_join_element_wise", *parts, "")


def replaced(strings: Strings, pattern: str, by: str) -> Strings:
    r"""Return strings with every match replaced; `by` may name groups as `\1`."""
    return _strings("replace_substring_regex", strings, pattern=pattern, replacement=by)


def captured(strings: Strings, pattern: str) -> Mapping[str, Strings]:
    r"""Return what the named groups of a pattern hold; null where it is not found.

    RE2 reads a pattern that ends in `\z` backwards from the end of the text, so that it costs no more than
    the length of the match.
    """
    found = pc.call_function("extract_regex", [strings], pc.ExtractRegexOptions(pattern))
    return {field.name: _strings("struct_field", found, field.name) for field in found.type.fields}


def after_last(strings: Strings, pattern: str) -> Strings:
    """Return what follows the last match of a pattern; null where it is not found."""
    found = is_match(strings, pattern)
    pieces = pc.split_pattern_regex(strings.filter(found), pattern)
    ends = pieces.offsets.to_numpy()[1:] - 1
    values: Strings = pieces.values  # type: ignore[assignment]
    return scattered(found, taken(values, ends))


def before_first(strings: Strings, pattern: str) -> Strings:
    """Return what precedes the first match of a pattern; all of the text where it is not found."""

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


def taken(strings: Strings, indices: NDArray[np.int64]) -> Strings:
    """Return the strings at indices, some of them again and again."""
    return _strings("take", strings, pa.array(indices))


def longest(strings: Strings) -> int:
    """Return the length of the longest string in characters; 0 where there is none."""
    lengths = pc.utf8_length(strings)
    return int(pc.max(lengths).as_py() or 0)


def mapped(strings: Strings, change: Callable[[str], str | None]) -> Strings:
    """Return strings changed by a function of Python, called once for each distinct string."""
    distinct: list[str | None] = strings.unique().to_pylist()
    changed = [None if text is None else change(text) for text in distinct]
    places = pc.index_in(strings, value_set=pa.array(distinct, pa.string())).to_numpy()
    return taken(pa.array(changed, pa.string()), places)


def is_short(strings: Strings, length: int) -> Mask:
    """Return where strings have no more than `length` characters; false for nulls."""
    return falsy(_mask("less_equal", _strings("utf8_length", strings), length))


def coalesced(*columns: Strings) -> Strings:
    """Return, per row, the first of the columns that is not null."""
    return _strings("coalesce", *columns)


def scattered(mask: Mask, values: Strings) -> Strings:
    """Return `values`, one for each true row of the mask, at these rows; null elsewhere."""
    return _strings("replace_with_mask", pa.nulls(len(mask), pa.string()), mask, values)


def rows_changed(strings: Strings, mask: Mask, change: Callable[[Strings], Strings]) -> Strings:
    """Return strings with the rows of the mask changed; `change` gets only these rows, if there are any."""
    if not is_any(mask):
        return strings
    return _strings("replace_with_mask", strings, mask, change(strings.filter(mask)))


def list_lengths(lists: Lists) -> NDArray[np.int64]:
    """Return the number of values of each list; 0 for null."""
    counts: NDArray[np.int64] = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    return np.nan_to_num(counts).astype(np.int64)


def flattened(lists: Lists) -> Strings:
    """Return the strings of all lists, one after the other."""
    return _strings("list_flatten", lists)


# The stubs of the kernels know neither Python scalars as arguments nor which kind of array comes back.
def _strings(kernel: str, *columns: object, **options: object) -> Strings:
    result: Strings = getattr(pc, kernel)(*columns, **options)
    return result


def _mask(kernel: str, *columns: object, **options: object) -> Mask:
    result: Mask = getattr(pc, kernel)(*columns, **options)
    return result
