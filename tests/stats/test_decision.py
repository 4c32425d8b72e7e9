from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from regrade.stats.decision import (
    PairedChanges,
    changes_of_counts,
    difference_interval,
    difference_p,
    lower_end,
    paired_changes,
    pass_p,
    regression_p,
    upper_end,
)
from regrade.stats.estimates import FloatArray
from regrade.stats.margins import PairedCounts


@st.composite
def tables(draw: st.DrawFn) -> PairedChanges:
    """Right and wrong answers, repeats, or passages, with few or many changes."""
    n = draw(st.integers(2, 400))
    repeats = draw(st.sampled_from([1, 1, 2, 16]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    share = draw(st.sampled_from([0.0, 0.005, 0.02, 0.1, 0.5, 1.0]))
    lean = draw(st.sampled_from([-0.9, -0.3, 0.0, 0.3, 0.9]))
    signs = np.where(rng.random(n) < (1 + lean) / 2, 1, -1)
    change = np.where(rng.random(n) < share, signs * rng.integers(1, repeats + 1, n), 0) / repeats
    clusters = np.arange(n) // draw(st.sampled_from([1, 1, 5]))
    return paired_changes(change, clusters, repeats)


@given(tables(), st.sampled_from([0.0, 0.005, 0.01, 0.05]), st.sampled_from([0.01, 0.025, 0.05]))
@settings(max_examples=60)
def test_the_interval_holds_what_the_tests_do_not_exclude(
    changes: PairedChanges, drop: float, alpha: float
) -> None:
    low, high = lower_end(changes, alpha, (drop,)), upper_end(changes, alpha, (drop,))

    assert -1 <= low <= changes.difference <= high <= 1
    assert (low > -drop) == (pass_p(changes, drop) < alpha)
    assert (high < -drop) == (regression_p(changes, drop) < alpha)
    assert (high < 0) <= (regression_p(changes, 0.0) < alpha)


@given(tables(), st.sampled_from([0.9, 0.95, 0.99]))
@settings(max_examples=60)
def test_an_interval_without_zero_is_a_significant_difference(
    changes: PairedChanges, level: float
) -> None:
    low, high = difference_interval(changes, level)

    assert (low <= 0 <= high) == (difference_p(changes) >= 1 - level)
    mirrored = difference_interval(changes.mirrored, level)
    assert mirrored == (-high, -low)


@pytest.mark.parametrize("table", [(0, 0, 200), (0, 7, 200), (7, 0, 200), (3, 5, 100)])
def test_single_right_and_wrong_answers_count_as_they_are(table: tuple[int, int, int]) -> None:
    gained, lost, n = table
    change = np.repeat([1.0, -1.0, 0.0], [gained, lost, n - gained - lost])

    changes = paired_changes(change, np.arange(n))

    assert changes.counts == PairedCounts(gained, lost, n)
    built = changes_of_counts(*table)
    assert (built.difference, built.stderr) == pytest.approx((changes.difference, changes.stderr))
    assert (built.counts, built.whole, built.n) == (changes.counts, changes.whole, changes.n)
    assert np.array_equal(built.sums, changes.sums)


@pytest.mark.parametrize("table", [(0, 0, 200), (2, 1, 60), (12, 5, 400)])
def test_a_pass_of_single_answers_is_a_regression_with_gains_and_losses_exchanged(
    table: tuple[int, int, int],
) -> None:
    """Losses that the questions cannot show are part of the score test already."""
    changes = changes_of_counts(*table)

    assert pass_p(changes, 0.02) == regression_p(changes.mirrored, -0.02)


def test_answers_that_always_change_together_count_as_one() -> None:
    change = np.repeat([1.0, -1.0, -1.0, 0.0], [4, 4, 4, 388])  # in 100 passages of 4

    together = paired_changes(change, np.repeat(np.arange(100), 4))
    alone = changes_of_counts(1, 2, 100)

    assert together.counts is None
    assert (together.whole, together.n, len(together.sums)) == (4, 400, 100)
    assert together.stderr == pytest.approx(alone.stderr)


def test_with_repeats_the_score_is_students_t_over_the_questions() -> None:
    from scipy.stats import ttest_1samp

    change = np.random.default_rng(0).integers(-4, 4, 50) / 4

    changes = paired_changes(change, np.arange(50), 4)

    drop = 0.02
    expected = ttest_1samp(change, -drop, alternative="less").pvalue
    assert changes.stderr == pytest.approx(change.std(ddof=1) / 50**0.5)
    assert regression_p(changes, drop) == pytest.approx(expected)


def test_one_cluster_proves_nothing() -> None:
    changes = paired_changes(np.array([-1.0, -1.0, -1.0]), np.zeros(3, np.int64))

    assert (regression_p(changes, 0.01), pass_p(changes, 0.01), difference_p(changes)) == (1, 1, 1)
    assert difference_interval(changes, 0.95) == pytest.approx((-1, 1))
    assert paired_changes(np.array([0.5, -0.5]), np.array([0, 1])).stderr == pytest.approx(0.5)


def test_clusters_that_all_changed_alike_leave_the_decision_to_the_exact_test() -> None:
    few, many = (paired_changes(np.full(n, -0.25), np.arange(n), 4) for n in (4, 5))

    assert regression_p(few, 0.0) == regression_p(few, 0.01) == 1 / 16
    assert regression_p(many, 0.01) == 1 / 32
    assert regression_p(many, 0.3) == 1.0


def test_changes_without_a_cluster_each_are_refused() -> None:
    with pytest.raises(ValueError, match=r"changes \(3,\) and clusters \(2,\)"):
        paired_changes(np.zeros(3), np.zeros(2, np.int64))
    with pytest.raises(ValueError, match="non-empty"):
        paired_changes(np.zeros(0), np.zeros(0, np.int64))


@pytest.mark.parametrize("table", [(3, 9, 50), (120, 249, 1319), (2_000, 3_000, 14_042)])
def test_a_difference_of_single_answers_has_the_exact_mcnemar_test(
    table: tuple[int, int, int],
) -> None:
    gained, lost, _ = table

    p = difference_p(changes_of_counts(*table))

    assert p == pytest.approx(binomtest(gained, gained + lost).pvalue, rel=1e-6)


def test_four_losses_and_no_gain_are_no_proof() -> None:
    changes = changes_of_counts(0, 4, 300)

    assert difference_p(changes) == pytest.approx(2 / 16)
    assert difference_interval(changes, 0.95)[1] == 0.0
    assert upper_end(changes, 0.05) == 0.0
    assert upper_end(changes_of_counts(0, 5, 300), 0.05) < 0


@pytest.mark.parametrize("table", [(12, 2, 50), (0, 1, 44), (30, 44, 400), (144, 164, 1319)])
@pytest.mark.parametrize("alpha", [0.05, 0.025])
def test_beyond_the_ends_of_the_interval_every_difference_is_excluded(
    table: tuple[int, int, int], alpha: float
) -> None:
    changes = changes_of_counts(*table)
    low, high = lower_end(changes, alpha), upper_end(changes, alpha)

    for end, sign, p in ((low, 1, pass_p), (high, -1, regression_p)):
        assert p(changes, -(end + 0.002 * sign)) > alpha > p(changes, -(end - 0.002 * sign))


def test_a_gain_passes_where_nothing_may_be_lost() -> None:
    assert pass_p(changes_of_counts(60, 5, 400), 0.0) < 1e-9
    assert pass_p(changes_of_counts(5, 60, 400), 0.0) == pytest.approx(1.0)
    assert regression_p(changes_of_counts(5, 60, 400), 0.0) < 1e-9
    assert pass_p(changes_of_counts(4, 0, 400), 0.0) == pytest.approx(1 / 16)


def collapse(rng: np.random.Generator, n: int, repeats: int, drop: float) -> FloatArray:
    """Return the changes of repeated answers if a share `drop` of questions, always right before, is lost."""
    before = rng.beta(0.5, 0.5, n)
    hit = rng.random(n) < drop
    after = np.where(hit, 0.0, before)
    before = np.where(hit, 1.0, before)
    change: FloatArray = (rng.binomial(repeats, after) - rng.binomial(repeats, before)) / repeats
    return change


@pytest.mark.parametrize(("n", "repeats", "drop"), [(30, 16, 0.05), (60, 16, 0.05), (100, 8, 0.02)])
def test_a_loss_in_few_of_few_questions_does_not_pass_too_often(
    n: int, repeats: int, drop: float
) -> None:
    """With the score test alone, 8 to 14 % passed."""
    rng = np.random.default_rng(3)
    draws = 800
    passed = 0
    for _ in range(draws):
        changes = paired_changes(collapse(rng, n, repeats, drop), np.arange(n), repeats)
        passed += pass_p(changes, drop) < 0.05

    assert passed / draws < 0.05 + 3 * np.sqrt(0.05 * 0.95 / draws)


def test_repeats_still_help_an_unchanged_model_to_pass() -> None:
    rng = np.random.default_rng(4)

    def passed(repeats: int) -> float:
        changed = (collapse(rng, 100, repeats, 0.0) for _ in range(100))
        draws = map(partial(paired_changes, clusters=np.arange(100), scale=repeats), changed)
        return float(np.mean([pass_p(changes, 0.05) < 0.05 for changes in draws]))

    assert passed(2) < 0.6
    assert passed(16) > 0.85


def test_an_interval_draws_the_permutations_of_the_exact_test_only_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = []

    def counted(sums: FloatArray, alternative: str) -> float:
        drawn.append(alternative)
        return 0.01

    monkeypatch.setattr("regrade.stats.decision.sign_flip_p", counted)
    change = np.random.default_rng(1).normal(-0.1, 0.1, 40).clip(-1, 1)
    changes = paired_changes(change, np.arange(40))

    regression_p(changes, 0.0)
    difference_interval(changes, 0.95)
    lower_end(changes, 0.05, (0.01,))
    upper_end(changes, 0.05, (0.01,))

    assert drawn == ["less"]
