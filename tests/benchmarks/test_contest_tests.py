"""LiveCodeBench's tests: public and private ones, and pickles that are refused."""

import base64
import json
import os
import pickle
import tracemalloc
import zlib

import pytest

from regrade.benchmarks.questions import contest_tests
from regrade.benchmarks.questions.contest_tests import ContestTestsError, contest_cases
from tests.benchmarks.programming import CONTEST_ROWS, FUNCTION_TESTS, private


def test_public_tests_come_before_private_ones():
    assert contest_cases(CONTEST_ROWS[0], is_function=False) == [("1\n", "2\n"), ("20\n", "40\n")]


def test_arguments_of_a_function_are_lines_of_json():
    cases = contest_cases(CONTEST_ROWS[2], is_function=True)
    assert cases == [([[1, 2], 3], [4, 5]), ([[], 3], [])]


@pytest.mark.parametrize(
    "form", [json.dumps(FUNCTION_TESTS), private(FUNCTION_TESTS), FUNCTION_TESTS]
)
def test_private_tests_are_json_a_packed_pickle_or_a_list(form: object):
    row = {"public_test_cases": "[]", "private_test_cases": form}
    assert len(contest_cases(row, is_function=True)) == 2


class Hostile:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch /tmp/regrade-was-here",)


@pytest.mark.parametrize("value", [Hostile(), os.path.join, {"a": pickle.PickleBuffer}])
def test_a_pickle_that_names_a_class_or_function_is_refused_and_not_run(value: object):
    packed = base64.b64encode(zlib.compress(pickle.dumps(value))).decode()
    with pytest.raises(ContestTestsError, match="a pickle with the operation"):
        contest_cases({"public_test_cases": "", "private_test_cases": packed}, is_function=False)
    assert not os.path.exists("/tmp/regrade-was-here")  # noqa: PTH110


def test_a_pickle_that_would_allocate_is_refused_before_it_does():
    for size in (1 << 27, (1 << 31) - 1):
        put = b"\x80\x04\x8c\x01ar" + size.to_bytes(4, "little") + b"0."
        packed = base64.b64encode(zlib.compress(put)).decode()
        tracemalloc.start()
        with pytest.raises(ContestTestsError):
            contest_cases(
                {"public_test_cases": "", "private_test_cases": packed}, is_function=False
            )
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        tracemalloc.stop()


def test_few_packed_bytes_stand_for_few_and_many_for_many(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(contest_tests, "SMALL", 10_000)
    numbers = "".join(f"{number * 7919 % 10**6} " for number in range(10_000))
    row = {
        "public_test_cases": "",
        "private_test_cases": private([{"input": numbers, "output": ""}]),
    }
    assert contest_cases(row, is_function=False) == [(numbers, "")]
    bomb = base64.b64encode(zlib.compress(bytes(10 << 20))).decode()
    tracemalloc.start()
    with pytest.raises(ContestTestsError, match=r"13,\d\d\d characters packed, are larger than 2"):
        contest_cases({"public_test_cases": "", "private_test_cases": bomb}, is_function=False)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("private_tests", "problem"),
    [
        ("AAAA", "cannot be unpacked"),
        (base64.b64encode(zlib.compress(b"no pickle")).decode(), "cannot be unpacked"),
        (base64.b64encode(zlib.compress(pickle.dumps(5))).decode(), "operation BININT1"),
        (base64.b64encode(zlib.compress(pickle.dumps("{"))).decode(), "not JSON"),
        (json.dumps([{"input": "1"}]), "cannot be read"),
        ("", "no tests"),
    ],
)
def test_damaged_tests_are_named(private_tests: str, problem: str):
    with pytest.raises(ContestTestsError, match=problem):
        contest_cases(
            {"public_test_cases": None, "private_test_cases": private_tests}, is_function=False
        )
