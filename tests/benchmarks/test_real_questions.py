"""Benchmarks on the real questions of GSM8K and MMLU."""

from collections import Counter

import pytest

from regrade.benchmarks import open_benchmark
from regrade.benchmarks.base import Benchmark
from regrade.benchmarks.mmlu import CATEGORIES
from tests.benchmarks.files import shared


@pytest.fixture(scope="module")
def gsm8k() -> Benchmark:
    return open_benchmark("gsm8k", source=str(shared("gsm8k")))


@pytest.fixture(scope="module")
def mmlu() -> Benchmark:
    return open_benchmark("mmlu", source=str(shared("mmlu")))


def test_gsm8k_has_1319_questions_with_whole_numbers(gsm8k: Benchmark) -> None:
    samples = gsm8k.samples()

    assert len(samples) == len({sample.id for sample in samples}) == 1319
    assert all(str(int(sample.target)) == sample.target for sample in samples)
    with_comma = [s for s in samples if "," in s.fields["answer"].rpartition("####")[2]]
    assert len(with_comma) == 14
    assert [s.index for s in samples if s.target.startswith("-")] == [489, 1113]


def test_mmlu_has_14042_questions_of_57_subjects_in_4_categories(mmlu: Benchmark) -> None:
    samples = mmlu.samples()
    subjects = {sample.subset for sample in samples}

    assert len(samples) == len({sample.id for sample in samples}) == 14042
    assert sorted(sample.index for sample in samples) == list(range(14042))
    assert len(subjects) == 57
    assert mmlu.groups == CATEGORIES
    assert sorted(subject for group in mmlu.groups.values() for subject in group) == sorted(
        subjects
    )
    assert Counter(len(sample.choices) for sample in samples) == {4: 14042}


def test_27_mmlu_questions_are_there_twice(mmlu: Benchmark) -> None:
    samples = mmlu.samples()
    first = {sample.id: sample for sample in samples}
    again = [sample for sample in samples if "-" in sample.id]

    assert len(again) == 27
    assert all(sample.id.endswith("-2") for sample in again)
    for sample in again:
        original = first[sample.id.removesuffix("-2")]
        assert original.index < sample.index
        assert (original.fields, original.subset) == (sample.fields, sample.subset)


def test_a_choice_that_is_the_word_none_stays_a_word(mmlu: Benchmark) -> None:
    choices = [choice for sample in mmlu.samples() for choice in sample.choices]

    assert choices.count("None") == 10
    assert all(isinstance(choice, str) and choice.strip() for choice in choices)
