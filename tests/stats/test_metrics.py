from collections import Counter
from math import inf, nan
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regrade.records.columns import SCORING_SCHEMA
from regrade.stats.estimates import clustered_standard_error, wilson_interval
from regrade.stats.metrics import Summary, further_averages, summarise


def score(sample: str, value: float | None, repeat: int = 0, **changes: Any) -> dict[str, Any]:
    row = {
        "sample_id": sample,
        "repeat": repeat,
        "subset": "",
        "value": value,
        "extracted": None if value is None else f"answer {value}",
        "outcome": "failed" if value is None else "scored",
        "truncated": False,
    }
    return row | changes


def summary(rows: list[dict[str, Any]], groups: dict[str, list[str]] | None = None) -> Summary:
    return summarise(pa.Table.from_pylist(rows, schema=SCORING_SCHEMA), groups or {})


def standard_error(values: list[float]) -> float:
    """Standard error of the mean of independent values."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def test_accuracy_has_its_n_its_error_and_what_is_missing() -> None:
    rows = [
        score("a", 1.0),
        score("b", 0.0, truncated=True),
        score("c", 0.0, outcome="unparsed", extracted=None, truncated=True),
        score("d", None),
    ]

    overall = summary(rows).overall

    assert (overall.rows, overall.n, overall.samples, overall.failed) == (4, 3, 3, 1)
    assert overall.accuracy == pytest.approx(1 / 3)
    assert overall.accuracy_stderr == pytest.approx(standard_error([1.0, 0.0, 0.0]))
    assert (overall.accuracy_low, overall.accuracy_high) == wilson_interval(1, 3)
    assert (overall.unparsed, overall.unparsed_rate) == (1, 0.25)
    assert (overall.truncated, overall.truncated_rate) == (2, 0.5)


def test_no_rows_have_no_accuracy() -> None:
    result = summary([])

    assert (result.overall.rows, result.overall.n, result.overall.accuracy) == (0, 0, None)
    assert (result.overall.unparsed_rate, result.macro_accuracy) == (None, None)
    assert (result.subsets, result.categories, result.pass_at) == ((), (), {})


def test_rows_that_all_failed_have_no_accuracy() -> None:
    overall = summary([score("a", None), score("b", None)]).overall

    assert (overall.rows, overall.n, overall.failed, overall.accuracy) == (2, 0, 2, None)
    assert (overall.accuracy_stderr, overall.accuracy_low, overall.accuracy_high) == (
        None,
        None,
        None,
    )


def test_one_sample_has_an_interval_and_no_standard_error() -> None:
    overall = summary([score("a", 1.0)]).overall

    assert (overall.accuracy, overall.accuracy_stderr) == (1.0, None)
    assert (overall.accuracy_low, overall.accuracy_high) == wilson_interval(1, 1)


def test_equal_values_of_repeats_have_the_interval_of_the_questions() -> None:
    rows = [score(str(i), 1.0, repeat) for i in range(10) for repeat in range(5)]

    overall = summary(rows).overall

    assert (overall.n, overall.samples, overall.accuracy_stderr) == (50, 10, 0.0)
    assert overall.accuracy_low == pytest.approx(wilson_interval(10, 10)[0])


def test_questions_that_are_right_equally_often_have_the_interval_of_the_questions() -> None:
    rows = [score(str(i), float(repeat == 0), repeat) for i in range(6) for repeat in range(3)]

    overall = summary(rows).overall

    assert overall.accuracy_stderr == 0.0
    assert overall.accuracy_low == pytest.approx(wilson_interval(2, 6)[0])


def test_the_turns_of_a_conversation_are_one_question_in_every_error() -> None:
    rows = [
        score(f"{question}#{turn}/2", float(question % 2), repeat)
        for question in range(4)
        for turn in (1, 2)
        for repeat in (0, 1)
    ]

    result = summary(rows)

    expected = pytest.approx(standard_error([0.0, 1.0, 0.0, 1.0]))
    assert result.overall.accuracy_stderr == expected
    assert (result.pass_at_stderr, result.majority_stderr) == ({1: expected, 2: expected}, expected)
    assert result.pass_at_samples == {1: 8, 2: 8}


def test_one_sample_with_repeats_says_nothing_about_other_samples() -> None:
    overall = summary([score("a", 1.0, 0), score("a", 0.0, 1)]).overall

    assert (overall.n, overall.samples, overall.accuracy) == (2, 1, 0.5)
    assert (overall.accuracy_stderr, overall.accuracy_low) == (None, None)


@pytest.mark.parametrize("bad", [nan, inf, -inf])
def test_a_value_that_is_not_finite_is_missing_and_poisons_nothing(bad: float) -> None:
    rows = [score("a", 1.0), score("b", bad), score("c", 0.0), score("d", bad, outcome="unparsed")]

    overall = summary(rows).overall

    assert (overall.n, overall.failed, overall.unparsed, overall.accuracy) == (2, 2, 0, 0.5)


@pytest.mark.parametrize(
    "values", [[[1.0, 0.0], [1.0, 1.0]], [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]]
)
def test_repeats_are_clustered_by_sample(values: list[list[float]]) -> None:
    rows = [
        score(str(i), value, repeat)
        for i, own in enumerate(values)
        for repeat, value in enumerate(own)
    ]

    overall = summary(rows).overall

    samples = np.repeat(np.arange(len(values)), len(values[0]))
    expected = clustered_standard_error(np.array(values).ravel(), samples)
    assert overall.accuracy_stderr == pytest.approx(expected)
    assert overall.accuracy_high == pytest.approx(min(1.0, overall.accuracy + 1.959964 * expected))


def test_macro_counts_subsets_and_micro_counts_questions() -> None:
    rows = [
        *(score(f"a{i}", 1.0, subset="algebra") for i in range(9)),
        score("b", 0.0, subset="botany"),
        score("c", None, subset="chess"),
    ]

    result = summary(rows)

    assert result.overall.accuracy == pytest.approx(0.9)
    assert result.macro_accuracy == pytest.approx(0.5)
    assert [subset.name for subset in result.subsets] == ["algebra", "botany", "chess"]
    assert [subset.metrics.n for subset in result.subsets] == [9, 1, 0]
    assert (result.macro_subsets, result.samples) == (2, 11)  # every answer of chess failed
    # One question of botany has no error: the spread of the subsets instead.
    assert result.macro_stderr == pytest.approx(standard_error([1.0, 0.0]))


def test_the_error_of_a_macro_average_is_that_of_independent_subsets() -> None:
    values = {"a": [1.0, 1.0, 0.0, 1.0], "b": [0.0, 1.0], "c": [1.0, 1.0, 1.0]}
    rows = [
        score(f"{subset}{number}", value, subset=subset)
        for subset, chosen in values.items()
        for number, value in enumerate(chosen)
    ]

    result = summary(rows)

    errors = [standard_error(chosen) for chosen in values.values()]
    assert result.macro_accuracy == pytest.approx((0.75 + 0.5 + 1) / 3)
    assert result.macro_stderr == pytest.approx(np.sqrt(np.square(errors).sum()) / 3)
    assert result.macro_subsets == 3


def test_categories_pool_the_questions_of_their_subsets() -> None:
    rows = [
        *(score(f"a{i}", 1.0, subset="algebra") for i in range(3)),
        score("b", 0.0, subset="botany"),
        score("c", 0.0, subset="chess"),
    ]
    groups = {"STEM": ["botany", "algebra", "zoology"], "games": ["chess"], "none": ["history"]}

    result = summary(rows, groups)

    assert [(c.name, c.category, c.metrics.n, c.metrics.accuracy) for c in result.categories] == [
        ("STEM", None, 4, 0.75),
        ("games", None, 1, 0.0),
    ]
    assert [subset.category for subset in result.subsets] == ["STEM", "STEM", "games"]


def test_without_subsets_there_is_no_breakdown() -> None:
    result = summary([score("a", 1.0), score("b", 0.0)], {"STEM": ["algebra"]})

    assert (result.subsets, result.categories, result.macro_accuracy) == ((), (), None)


def test_pass_at_k_is_over_every_sample_with_k_answers() -> None:
    rows = [
        *(score("a", value, repeat) for repeat, value in enumerate([1.0, 0.0, 0.0, 0.0, 0.0])),
        *(score("b", value, repeat) for repeat, value in enumerate([1.0, 1.0, None, 1.0, 1.0])),
        *(score("c", 1.0, repeat) for repeat in range(4)),
    ]

    rows += [score("d", None, repeat) for repeat in range(5)]

    result = summary(rows)

    # One right of five; four right of four, twice. Only `a` has five answers.
    assert result.pass_at == pytest.approx({1: 2.2 / 3, 2: 2.4 / 3, 4: 2.8 / 3, 5: 1.0})
    assert result.pass_at_samples == {1: 3, 2: 3, 4: 3, 5: 1}
    assert (result.samples, result.overall.samples, result.overall.failed) == (4, 3, 6)
    assert result.pass_at_stderr[1] == pytest.approx(standard_error([0.2, 1, 1]))
    assert result.pass_at_stderr[5] is None
    assert result.averages()["pass_at_5_samples"] == 1


def test_pass_at_k_of_unparsed_answers_is_zero_not_missing() -> None:
    rows = [score("a", 0.0, repeat, outcome="unparsed", extracted=None) for repeat in range(2)]

    result = summary(rows)

    assert result.pass_at == {1: 0.0, 2: 0.0}
    assert (result.majority_accuracy, result.majority_stderr) == (0.0, None)


def test_without_a_sample_with_k_answers_there_is_no_pass_at_k() -> None:
    result = summary([score("a", 1.0, 0), score("b", 1.0, 1)])

    assert (result.pass_at, result.pass_at_samples) == ({1: 1.0}, {1: 2})


def test_without_repeats_there_is_no_pass_at_k_and_no_majority() -> None:
    result = summary([score("a", 1.0), score("b", 0.0)])

    assert (result.pass_at, result.majority_accuracy, result.majority_stderr) == ({}, None, None)


def test_the_majority_decides_and_the_first_of_equals_wins() -> None:
    votes = {
        "wrong twice": [("3", 0.0), ("2", 1.0), ("3", 0.0)],
        "right twice": [("2", 1.0), ("3", 0.0), ("2", 1.0)],
        "all differ": [("2", 1.0), ("3", 0.0), ("4", 0.0)],
        "one vote": [(None, 0.0), (None, 0.0), ("2", 1.0)],
    }
    rows = [
        score(sample, value, repeat, extracted=answer, outcome="scored" if answer else "unparsed")
        for sample, own in votes.items()
        for repeat, (answer, value) in enumerate(own)
    ]

    for order in (rows, rows[::-1]):
        result = summary(order)
        assert result.majority_accuracy == 0.75
        assert result.majority_stderr == pytest.approx(standard_error([0.0, 1, 1, 1]))
        assert result.majority_samples == 4


answers = st.sampled_from([("2", 1.0), ("3", 0.0), ("4", 0.0), (None, 0.0), (None, None)])


@given(st.lists(st.lists(answers, min_size=3, max_size=3), min_size=1, max_size=6))
@settings(max_examples=80)
def test_the_majority_agrees_with_a_slow_twin(
    samples: list[list[tuple[str | None, float | None]]],
) -> None:
    rows, expected = [], []
    for number, own in enumerate(samples):
        for repeat, (answer, value) in enumerate(own):
            outcome = "failed" if value is None else "scored" if answer else "unparsed"
            row = score(str(number), value, repeat, extracted=answer, outcome=outcome)
            rows.append(row)
        if any(value is not None for _, value in own):
            votes = Counter(answer for answer, _ in own if answer)
            expected.append(float(bool(votes) and votes.most_common(1)[0][0] == "2"))

    majority = summary(rows).majority_accuracy

    assert majority == (pytest.approx(sum(expected) / len(expected)) if expected else None)


def test_a_summary_stored_before_these_errors_were_recorded_is_read() -> None:
    rows = [score(sample, 1.0, repeat, subset=sample) for sample in "ab" for repeat in range(2)]
    newer = (
        "samples",
        "macro_stderr",
        "macro_subsets",
        "pass_at_stderr",
        "pass_at_samples",
        "majority_samples",
    )
    stored = summary(rows).model_dump(mode="json", exclude=set(newer))

    read = Summary.model_validate(stored)

    assert (read.samples, read.macro_stderr, read.pass_at_stderr) == (None, None, {})
    averages = read.averages()
    assert (averages["pass_at_2"], averages["pass_at_2_stderr"]) == (1.0, None)


def test_pass_at_k_is_that_of_the_largest_k_that_was_scored() -> None:
    metrics = {"pass_at_1": 0.5, "pass_at_2": 0.6, "pass_at_4": 0.7, "majority_accuracy": 0.4}
    errors = {"pass_at_2_stderr": 0.1, "pass_at_4_stderr": 0.2, "majority_stderr": 0.3}

    assert further_averages(metrics, 8) == [("pass@4", 0.7, None), ("maj@8", 0.4, None)]
    assert further_averages(metrics | errors, 8) == [("pass@4", 0.7, 0.2), ("maj@8", 0.4, 0.3)]
    assert further_averages({"pass_at_1": 0.5}, 8) == []
    assert further_averages(metrics, 1) == []
