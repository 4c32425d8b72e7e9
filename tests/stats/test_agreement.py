import numpy as np
import pytest
from statsmodels.stats.inter_rater import cohens_kappa

from regrade.stats.agreement import agreement, alpha_of

NAN = float("nan")
# Four observers, twelve units: Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", sections C and D.
OBSERVERS = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
)


@pytest.mark.parametrize(("level", "published"), [("nominal", 0.743), ("ordinal", 0.815)])
def test_alpha_is_that_of_the_published_example_with_missing_values(
    level: str, published: float
) -> None:
    counts = np.stack([(value == OBSERVERS).sum(axis=0) for value in range(1, 6)], axis=1)

    alpha = alpha_of(counts, np.arange(12), level)

    assert alpha.value == pytest.approx(published, abs=5e-4)
    assert alpha.low < alpha.value < alpha.high


def test_alpha_of_two_observers_is_that_of_the_published_example() -> None:
    # The same paper, section A: binary data, two observers, ten units.
    first = np.array([0, 1, 0, 0, 0, 0, 0, 0, 1, 0])
    second = np.array([1, 1, 1, 0, 0, 1, 0, 0, 0, 0])

    result = agreement(first, second, np.arange(10), ("0", "1"))

    assert result.alpha.value == pytest.approx(0.095, abs=5e-4)


@pytest.mark.parametrize("seed", range(5))
def test_kappa_agrees_with_statsmodels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, 3, 60), rng.integers(0, 3, 60)

    result = agreement(first, second, np.arange(60), ("a", "b", "c"))

    assert result.kappa.value == pytest.approx(cohens_kappa(np.array(result.table)).kappa)
    assert np.array(result.table).sum() == 60
    assert np.trace(np.array(result.table)) == 60 * result.raw.value


def test_units_that_only_one_rated_do_not_count() -> None:
    result = agreement(np.array([0, 1, -1]), np.array([0, -1, 1]), np.arange(3), ("no", "yes"))

    assert result.n == 1


def test_kappa_is_not_defined_if_both_gave_one_label_only() -> None:
    same = np.zeros(20, np.int64)

    result = agreement(same, same, np.arange(20), ("no", "yes"))

    assert result.kappa.value is None
    assert result.alpha.value is None
    assert result.raw.value == 1
    assert result.raw.low == pytest.approx(0.839, abs=1e-3)  # Wilson, 20 of 20
    assert result.prevalence == ((1.0, 1.0), (0.0, 0.0))


def test_agreement_without_an_error_has_no_interval_of_no_width() -> None:
    labels = np.arange(20) % 2

    result = agreement(labels, labels, np.arange(20), ("no", "yes"))

    assert result.kappa.value == 1
    assert (result.kappa.low, result.kappa.high) == (None, None)


def test_intervals_are_wider_if_units_come_in_groups() -> None:
    rng = np.random.default_rng(0)
    first = np.repeat(rng.integers(0, 2, 25), 4)
    second = np.where(np.repeat(rng.random(25) < 0.2, 4), 1 - first, first)

    alone = agreement(first, second, np.arange(100), ("no", "yes"))
    grouped = agreement(first, second, np.repeat(np.arange(25), 4), ("no", "yes"))

    assert grouped.kappa.value == alone.kappa.value
    assert grouped.kappa.high - grouped.kappa.low > 1.5 * (alone.kappa.high - alone.kappa.low)
    assert grouped.raw.high - grouped.raw.low > 1.5 * (alone.raw.high - alone.raw.low)


def test_no_common_unit_gives_no_agreement() -> None:
    assert agreement(np.array([0, -1]), np.array([-1, 0]), np.arange(2), ("no", "yes")) is None
