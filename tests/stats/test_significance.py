import gc
from itertools import product

import numpy as np
import pytest
from scipy.stats import binomtest, permutation_test
from statsmodels.stats.multitest import multipletests

from regrade.stats.significance import Alternative, benjamini_hochberg, holm, sign_flip_p

COUNTS = [(0, 1), (1, 0), (0, 5), (3, 9), (9, 3), (7, 7), (40, 62), (700, 800), (15_000, 15_250)]


@pytest.mark.parametrize(("gained", "lost"), COUNTS)
@pytest.mark.parametrize("alternative", ["two-sided", "less"])
def test_sign_flips_of_single_answers_are_mcnemars_test(
    gained: int, lost: int, alternative: Alternative
) -> None:
    sums = np.repeat([1.0, 0.0, -1.0], [gained, 11, lost])

    mcnemar = binomtest(gained, gained + lost, alternative=alternative).pvalue
    assert sign_flip_p(sums, alternative) == pytest.approx(mcnemar, rel=1e-9)


@pytest.mark.parametrize("change", [-0.5, -1.0, -0.3])
def test_a_single_changed_pair_has_a_p_value(change: float) -> None:
    sums = np.array([0.0, change, 0.0])

    assert sign_flip_p(sums) == 1.0
    assert sign_flip_p(sums, "less") == 0.5
    assert sign_flip_p(-sums, "less") == 1.0


def test_the_size_of_a_grade_changes_no_p_value() -> None:
    sums = np.repeat([0.5, -0.5, 1.0, -1.0], [20, 40, 3, 9])

    assert sign_flip_p(sums) == sign_flip_p(2 * sums)


@pytest.mark.parametrize("seed", range(10))
def test_sign_flips_of_whole_clusters_agree_with_trying_them_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sums = rng.integers(-4, 5, 9).astype(float)

    flipped = [abs(sums) @ np.array(signs) for signs in product([1, -1], repeat=len(sums))]
    less = np.mean([total <= sums.sum() + 1e-9 for total in flipped])
    either = np.mean([abs(total) >= abs(sums.sum()) - 1e-9 for total in flipped])

    assert sign_flip_p(sums, "less") == pytest.approx(less)
    assert sign_flip_p(sums) == pytest.approx(min(1, either))


def test_sign_flips_of_fractions_agree_with_scipy() -> None:
    sums = np.random.default_rng(1).normal(-0.3, 1, 12)

    theirs = permutation_test(
        (sums,), np.sum, permutation_type="samples", alternative="less", n_resamples=np.inf
    )

    assert sign_flip_p(sums, "less") == pytest.approx(theirs.pvalue)


def test_many_fractions_are_drawn_the_same_way_each_time() -> None:
    sums = np.random.default_rng(2).normal(-0.2, 1, 60)

    p = sign_flip_p(sums, "less")

    assert sign_flip_p(sums, "less") == p
    assert 0.0 < p < 0.2
    assert sign_flip_p(sums) == pytest.approx(2 * p, abs=0.01)


def test_an_empty_or_unchanged_pair_is_no_evidence() -> None:
    assert sign_flip_p(np.zeros(5)) == sign_flip_p(np.array([])) == 1.0


def test_grades_that_add_up_to_nothing_but_rounding_have_not_changed() -> None:
    nothing = 0.1 + 0.2 - 0.3

    assert nothing > 0
    assert sign_flip_p(np.array([nothing])) == 1.0
    assert sign_flip_p(np.array([nothing, -1.0, -1.0]), "less") == 0.25


@pytest.mark.parametrize("seed", range(5))
def test_corrections_agree_with_statsmodels(seed: int) -> None:
    p = np.random.default_rng(seed).random(7) ** 3

    gc.freeze()  # statsmodels collects garbage, among all that other tests left
    assert holm(list(p)) == pytest.approx(multipletests(p, method="holm")[1])
    assert benjamini_hochberg(list(p)) == pytest.approx(multipletests(p, method="fdr_bh")[1])


def test_no_test_has_no_correction() -> None:
    assert holm([]) == benjamini_hochberg([]) == []
