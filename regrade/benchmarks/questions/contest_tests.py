"""Tests of LiveCodeBench: public ones as JSON, private ones as JSON or as a compressed pickle of it."""

import base64
import binascii
import json
import pickletools
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

SMALL, LARGEST = 64 << 20, 512 << 20
"""Largest size of the private tests of a question after decompression, in bytes: of few packed bytes, and of many."""
RATIO = 16
"""Bytes that each packed byte may stand for between the two sizes. The tests of release v6 take 5.8 GB packed and 12.1 GB
unpacked together (https://github.com/NVIDIA-NeMo/Gym/pull/2806): twice the bytes, and 11.5 MB a question."""


class ContestTestsError(ValueError):
    """The tests of a question cannot be read."""


_PLAIN = ("PROTO", "FRAME", "BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE")
"""Operations of a pickle that neither load nor make anything."""
_TEXTS = ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8")


def _text_in(pickled: bytes) -> str:
    """Return the text that a pickle consists of. Its operations are read, never executed, so that nothing is made by them.

    Raises:
        ContestTestsError: If it is anything but a text.
        ValueError: If it is damaged.
    """
    text: str | None = None
    for operation, argument, _ in pickletools.genops(pickled):
        if operation.name in _TEXTS and text is None:
            text = str(argument)
        elif operation.name == "STOP" and text is not None:
            return text
        elif operation.name not in _PLAIN:
            raise ContestTestsError(
                f"the private tests are a pickle with the operation {operation.name}; expected a single text"
            )
    raise ContestTestsError("the private tests are a pickle without a text")


def contest_cases(row: Mapping[str, Any], *, is_function: bool) -> Sequence[tuple[Any, Any]]:
    """Return input and output of each test, the public ones first.

    Args:
        row: Columns `public_test_cases` and `private_test_cases`.
        is_function: Read inputs as JSON, an argument per line, and outputs as JSON, instead of as texts.

    Raises:
        ContestTestsError: If the tests cannot be read, or there are none.
    """
    tests = [*_listed(row["public_test_cases"]), *_listed(_private(row["private_test_cases"]))]
    if not tests:
        raise ContestTestsError("the question has no tests")
    try:
        pairs = [(test["input"], test["output"]) for test in tests]
        if not is_function:
            return [(str(given), str(expected)) for given, expected in pairs]
        return [
            ([json.loads(line) for line in given.split("\n")], json.loads(expected))
            for given, expected in pairs
        ]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ContestTestsError(f"a test cannot be read: {error!r}") from error


def _listed(tests: object) -> Sequence[Mapping[str, Any]]:
    if isinstance(tests, str | bytes):
        try:
            tests = json.loads(tests) if tests else []
        except ValueError as error:
            raise ContestTestsError("the tests are not JSON") from error
    if tests is None:
        return []
    if not isinstance(tests, list):
        raise ContestTestsError(f"the tests are a {type(tests).__name__}; expected a list")
    return tests


def _private(tests: object) -> object:
    """Return private tests as JSON text or as a list."""
    if not isinstance(tests, str) or tests.lstrip()[:1] in ("[", ""):
        return tests
    try:
        unpacked = zlib.decompressobj()
        most = min(max(SMALL, RATIO * len(tests)), LARGEST)
        content = unpacked.decompress(base64.b64decode(tests), most)
        if unpacked.unconsumed_tail:
            raise ContestTestsError(
                f"the private tests, {len(tests):,} characters packed, are larger than {most:,} bytes, the most that they may take"
            )
        return _text_in(content)
    except ContestTestsError:
        raise
    except (binascii.Error, zlib.error, ValueError) as error:
        raise ContestTestsError(f"the private tests cannot be unpacked: {error!r}") from error
