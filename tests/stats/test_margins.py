from math import log, sqrt

import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import binom, multinomial, norm

from regrade.stats.margins import PairedCounts, drop_p, score_z

TABLES = [(12, 2, 50), (0, 1, 44), (30, 44, 400), (1, 0, 9), (144, 164, 1319)]


def no_drop_p(counts: PairedCounts, drop: float) -> float:
    """Return the probability of a difference this high or higher if the true drop were `drop`."""
    return drop_p(PairedCounts(counts.lost, counts.gained, counts.n), -drop)


def slow_score_z(gained: int, lost: int, n: int, difference: float) -> float:
    """Return the score statistic with the likelihood maximised by search instead of the formula."""

    def unlikely(share_lost: float) -> float:
        shares = share_lost + difference, share_lost, 1 - 2 * share_lost - difference
        pairs = zip((gained, lost, n - gained - lost), shares, strict=True)
        return -sum(count * log(max(share, 1e-300)) for count, share in pairs)

    bounds = max(0.0, -difference), (1 - difference) / 2
    share = minimize_scalar(unlikely, bounds=bounds, method="bounded", options={"xatol": 1e-12}).x
    variance = n * (2 * share + difference - difference**2)
    return float((gained - lost - n * difference) / sqrt(variance))


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("difference", [-0.2, -0.01, 0.0, 0.05])
def test_the_score_statistic_is_at_the_greatest_likelihood(
    table: tuple[int, int, int], difference: float
) -> None:
    z = score_z(PairedCounts(*table), difference)

    assert z == pytest.approx(slow_score_z(*table, difference), abs=1e-4)


@pytest.mark.parametrize("table", TABLES)
def test_at_no_difference_its_square_is_mcnemars_statistic(table: tuple[int, int, int]) -> None:
    gained, lost, _ = table

    assert score_z(PairedCounts(*table), 0.0) ** 2 == pytest.approx(
        (gained - lost) ** 2 / (gained + lost)
    )


@pytest.mark.parametrize(("n", "passes"), [(290, False), (300, True)])
def test_without_a_loss_the_rule_of_three_holds(n: int, passes: bool) -> None:
    p = no_drop_p(PairedCounts(0, 0, n), 0.01)

    assert p == pytest.approx(0.99**n)
    assert (p < 0.05) == passes


@pytest.mark.parametrize("share_gained", [0.0, 0.03])
@pytest.mark.parametrize(
    ("n", "drop"), [(20, 0.05), (100, 0.02), (100, 0.01), (268, 0.01), (300, 0.01), (500, 0.01)]
)
def test_both_claims_keep_their_level_at_the_accepted_drop(
    n: int, drop: float, share_gained: float
) -> None:
    """Sum over all outcomes if the true drop equals the accepted drop."""
    most = min(45, n)
    regressions = passes = 0.0
    for gained in range(most if share_gained else 1):
        chance_gained = binom.pmf(gained, n, share_gained)
        for lost in range(min(most, n - gained) + 1):
            chance = chance_gained * binom.pmf(
                lost, n - gained, (share_gained + drop) / (1 - share_gained)
            )
            if chance > 1e-6:
                counts = PairedCounts(gained, lost, n)
                regressions += chance * (drop_p(counts, drop) < 0.05)
                passes += chance * (no_drop_p(counts, drop) < 0.05)

    assert regressions < 0.056
    assert passes < 0.056


def test_few_and_many_changes_meet() -> None:
    below, above = PairedCounts(90, 109, 1319), PairedCounts(91, 110, 1319)  # 199 and 201 changed

    assert drop_p(below, 0.01) == pytest.approx(drop_p(above, 0.01), abs=0.01)
    exact = drop_p(below, 0.01)
    assert exact == pytest.approx(norm.cdf(score_z(below, -0.01)), abs=0.01)


@pytest.mark.parametrize("table", [(0, 0, 100), (3, 9, 50), (12, 2, 50), (0, 8, 20), (20, 25, 60)])
@pytest.mark.parametrize("drop", [0.0, 0.01, 0.2])
def test_the_exact_tail_is_the_sum_over_all_outcomes(
    table: tuple[int, int, int], drop: float
) -> None:
    gained, lost, n = table
    counts, z = PairedCounts(*table), score_z(PairedCounts(*table), -drop)
    # Most likely share of losses: the root that test_the_score_statistic_is_at_the_greatest_likelihood checks.
    b = -gained - lost - (2 * n - gained + lost) * drop
    c = lost * drop * (1 + drop)
    share_lost = max(drop, ((b * b - 8 * n * c) ** 0.5 - b) / (4 * n))
    shares = [share_lost - drop, share_lost, 1 - 2 * share_lost + drop]
    below = above = 0.0
    for gains in range(n + 1):
        for losses in range(n - gains + 1):
            chance = float(multinomial.pmf([gains, losses, n - gains - losses], n, shares))
            if chance > 1e-14:
                other = score_z(PairedCounts(gains, losses, n), -drop)
                below += chance * (other <= z + 1e-9)
                above += chance * (other >= z - 1e-9)

    assert drop_p(counts, drop) == pytest.approx(below, abs=1e-8)
    assert no_drop_p(counts, drop) == pytest.approx(above, abs=1e-8)


def test_a_difference_that_no_share_can_have_is_refused() -> None:
    with pytest.raises(ValueError, match="between -1 and 1"):
        score_z(PairedCounts(1, 1, 5), 1.0)
