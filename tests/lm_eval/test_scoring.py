"""Scores of stored answers are those that lm_eval gives the same responses, question by question."""

from collections.abc import Mapping
from typing import Any

import datasets
import pytest

from regrade.lm_eval.index import TaskEntry
from tests.benchmarks.files import shared
from tests.lm_eval import rows
from tests.lm_eval.comparing import differences, ours, theirs
from tests.lm_eval.equality import real_splits

Index = Mapping[str, TaskEntry]
pytestmark = pytest.mark.filterwarnings("ignore")
"""Warnings of lm_eval's own run, which is the reference."""


@pytest.fixture(autouse=True)
def _their_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "load_dataset", rows.load_dataset)
    monkeypatch.setenv("DISABLE_MULTIPROC", "1")


@pytest.mark.parametrize("spec", rows.QUICK)
def test_every_number_is_that_of_the_harness(spec: str, index: Index) -> None:
    compared, different = differences(ours(spec, index), theirs(spec, index))

    assert different == []
    assert compared > 7


@pytest.mark.slow
@pytest.mark.usefixtures("nltk_data")
@pytest.mark.parametrize("spec", rows.SLOW)
def test_every_number_of_further_tasks_is_that_of_the_harness(spec: str, index: Index) -> None:
    compared, different = differences(ours(spec, index), theirs(spec, index))

    assert different == []
    assert compared > 7


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["gsm8k", "mmlu"])
def test_every_number_of_whole_benchmarks_is_that_of_the_harness(
    spec: str, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shared("gsm8k" if spec == "gsm8k" else "mmlu")
    splits = real_splits(real)

    def load_dataset(path: str, name: str | None = None, **_: object) -> Any:
        return splits[path, name]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)

    compared, different = differences(
        ours(spec, index, lambda path, name, _: splits[path, name]), theirs(spec, index)
    )

    assert different == []
    assert compared > (2 * 1_319 if spec == "gsm8k" else 14_042)
