"""JSON form of plain Python values, which keeps their types: arguments and results cross the sandbox in it.

JSON's own values stand for themselves. Other values are an object with a single key, the kind: `{"tuple": [...]}`.
A value of another type becomes `Opaque`, which is equal to no value.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

Value = Any
"""Any value of Python."""
Form = Any
"""A value in its JSON form."""

_SAFE_INTEGER = 1 << 53
_ITERATORS = (
    *("map", "filter", "zip", "generator", "list_iterator"),
    *("dict_keys", "dict_values", "dict_items"),
)
_DEEPEST = 200
_LONGEST_DECIMAL = 1000
_NUMBERS = re.compile(r"bool|u?int\d+|float\d+|complex\d+")


class NotPlainError(ValueError):
    """A value is nested too deeply, or contains itself."""


class RaisedError(Exception):
    """A call of a program raised an error; its message is the name of the error's type."""


class Opaque:
    """A value that cannot be sent, such as an object of a program's class. It is equal to no value."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{self.kind}>"


def dumps(value: Value) -> str:
    """Return a value as canonical JSON text: equal values of equal types give equal texts.

    Raises:
        NotPlainError: If the value is nested too deeply, or contains itself.
    """
    return json.dumps(encoded(value), sort_keys=True, separators=(",", ":"))


def loads(text: "str | bytes") -> Value:
    """Return the value of a JSON text. Raises errors of many types if it is not the form of one."""
    return decoded(json.loads(text))


def value_in(answer: bytes) -> Value:
    """Return the value in the answer to a call.

    Raises:
        RaisedError: If the call raised.
    """
    content = json.loads(answer.decode())
    [(kind, form)] = content.items()
    if kind == "raised":
        raise RaisedError(str(form))
    return decoded({"value": form}[kind])


def encoded(value: Value, depth: int = 0) -> Form:
    """Return the JSON form of a value; subclasses of plain types count as their base, as for `==`."""
    if depth > _DEEPEST:
        raise NotPlainError("nested too deeply")
    if value is None or value is True or value is False:
        return value
    if isinstance(value, int):
        number = int(value)
        return number if abs(number) < _SAFE_INTEGER else {"int": hex(number)}
    if isinstance(value, float):
        real = float(value)
        return real if math.isfinite(real) else {"float": repr(real)}
    if isinstance(value, str):
        return str.__str__(value)
    kind = type(value)
    if isinstance(value, list):
        return [encoded(item, depth + 1) for item in list.__iter__(value)]
    if isinstance(value, tuple):
        return {"tuple": [encoded(item, depth + 1) for item in tuple.__iter__(value)]}
    if isinstance(value, dict):
        return {"dict": _pairs(dict.items(value), depth)}
    if isinstance(value, (set, frozenset)):
        name = "frozenset" if isinstance(value, frozenset) else "set"
        return {name: _sorted(encoded(item, depth + 1) for item in value)}
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": bytes(value).hex()}
    if isinstance(value, complex):
        return {"complex": [encoded(value.real), encoded(value.imag)]}
    if kind.__module__ == "decimal" and kind.__name__ == "Decimal":
        digits = str(value)
        return {"decimal": digits} if len(digits) <= _LONGEST_DECIMAL else {"opaque": "Decimal"}
    if kind is range:
        return {"range": [encoded(part) for part in (value.start, value.stop, value.step)]}
    if kind.__module__ == "numpy":
        return _numpy_encoded(value, depth)
    if kind.__module__ == "builtins" and kind.__name__ in _ITERATORS:
        return {"iterator": [encoded(item, depth + 1) for item in value]}
    if kind.__module__ == "collections" and kind.__name__ == "deque":
        return {"deque": [encoded(item, depth + 1) for item in value]}
    return {"opaque": kind.__name__}


def decoded(form: Form) -> Value:
    """Return the value of a JSON form. Raises errors of many types for other JSON."""
    if isinstance(form, list):
        return [decoded(item) for item in form]
    if not isinstance(form, dict):
        return form
    [(kind, content)] = form.items()
    return _DECODERS[kind](content)


def _pairs(items: Iterable[Any], depth: int) -> list[Any]:
    return [[encoded(key, depth + 1), encoded(item, depth + 1)] for key, item in items]


def _sorted(forms: Iterable[Any]) -> list[Any]:
    return sorted(forms, key=lambda form: json.dumps(form, sort_keys=True))


def _numpy_encoded(value: Value, depth: int) -> Form:
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        if getattr(value, "ndim", 0) == 0:
            return encoded(value.item(), depth + 1)
        return {"array": [str(value.dtype), encoded(value.tolist(), depth + 1)]}
    return {"opaque": type(value).__name__}


def _array(content: Form) -> Value:
    import numpy as np  # noqa: PLC0415 - only where a program returned an array

    kind, items = content
    if not _NUMBERS.fullmatch(kind):  # other types could reserve any amount of memory
        return Opaque("ndarray")
    return np.array(decoded(items), dtype=kind)


def _decimal(content: Form) -> Value:
    from decimal import Decimal  # noqa: PLC0415 - rare

    return Decimal(content[:_LONGEST_DECIMAL])


def _deque(content: Form) -> Value:
    from collections import deque  # noqa: PLC0415 - rare

    return deque(decoded(content))


_DECODERS: Mapping[str, Any] = {
    "int": lambda content: int(content, 16),
    "float": float,
    "tuple": lambda content: tuple(decoded(content)),
    "dict": lambda content: {decoded(key): decoded(value) for key, value in content},
    "set": lambda content: set(decoded(content)),
    "frozenset": lambda content: frozenset(decoded(content)),
    "bytes": bytes.fromhex,
    "complex": lambda content: complex(decoded(content[0]), decoded(content[1])),
    "decimal": _decimal,
    "range": lambda content: range(*decoded(content)),
    "iterator": lambda content: iter(decoded(content)),
    "deque": _deque,
    "array": _array,
    "opaque": Opaque,
}
