"""Tests of LiveCodeBench: public ones as JSON, private ones as JSON or as a compressed pickle of it."""

import base64
import binascii
import io
import json
import pickle
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

LARGEST = 1 << 30
"""Largest size of the private tests of a question after decompression, in bytes."""


class ContestTestsError(ValueError):
    """The tests of a question cannot be read."""


class _TextUnpickler(pickle.Unpickler):
    """Reads plain values only, and refuses a pickle that names a class or function before it is used."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:  # noqa: ANN401 - of the base class
        raise ContestTestsError(
            f"the private tests are a pickle that wants to load '{module_name}.{global_name}'; expected texts"
        )


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
        content = unpacked.decompress(base64.b64decode(tests), LARGEST)
        if unpacked.unconsumed_tail:
            raise ContestTestsError(f"the private tests are larger than {LARGEST:,} bytes")
        return _TextUnpickler(io.BytesIO(content)).load()
    except ContestTestsError:
        raise
    except (
        binascii.Error,
        zlib.error,
        pickle.UnpicklingError,
        EOFError,
        ValueError,
        IndexError,
        KeyError,
        AttributeError,
        TypeError,
        MemoryError,
    ) as error:
        raise ContestTestsError(f"the private tests cannot be unpacked: {error!r}") from error
