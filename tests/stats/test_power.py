import re
from math import ceil, log, sqrt
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from perf.gate_simulation import few_changes
from regrade.stats.decision import (
    PairedChanges,
    changes_of_counts,
    paired_changes,
    pass_p,
    regression_p,
)
from regrade.stats.power import POWER, can_pass, detectable_drop, drop_that_passes, questions_needed


def observed(changed: int, n: int) -> PairedChanges:
    """Return changes with as many gains as losses."""
    return changes_of_counts(changed // 2, changed // 2, n)


@pytest.mark.parametrize(
    ("n", "changed", "drop", "alpha"),
    [(60, 6, 0.02, 0.05), (60, 2, 0.05, 0.05), (80, 8, 0.1, 0.025), (40, 10, 0.2, 0.05)],
)
def test_the_power_is_the_sum_over_all_outcomes(
    n: int, changed: int, drop: float, alpha: float
) -> None:
    called = np.zeros((n + 1, n + 1), np.bool_)
    for gained in range(n + 1):
        for lost in range(n - gained + 1):
            if lost - gained > drop * n:
                p = regression_p(changes_of_counts(gained, lost, n), drop)
                called[gained, lost] = p < alpha

    def power(true: float) -> float:
        share = max((changed + 2) / (n + 2), true)
        up, down = (share - true) / 2, (share + true) / 2
        gained, lost = np.nonzero(called)
        chances = binom.pmf(gained, n, up) * binom.pmf(lost, n - gained, down / (1 - up))
        return float(chances.sum())

    found = detectable_drop(observed(changed, n), drop, alpha)

    assert power(found - 0.0005) < POWER <= power(found + 0.0005)


def test_nothing_changed_of_400_by_hand() -> None:
    # Six losses and no gain have p = 1/64 < 0.025, so six have to be found among 400: binomial with 80 %.
    drop = detectable_drop(observed(0, 400), 0.0, 0.025)

    assert drop == pytest.approx(0.0197, abs=0.0001)
    assert binom.sf(5, 400, drop) == pytest.approx(0.8, abs=0.001)


def test_the_smallest_drop_of_a_normal_test_by_hand() -> None:
    # No margin, 20 % changed of 10,000: (1.645 + 0.842) * sqrt(0.2) / 100, a little less by the square of the drop.
    drop = detectable_drop(observed(1_998, 9_998), 0.0, 0.05)

    assert drop == pytest.approx((1.6449 + 0.8416) * sqrt(0.2) / 100, rel=0.015)


def test_more_questions_and_a_smaller_margin_find_smaller_drops() -> None:
    few, many = observed(100, 1_000), observed(1_000, 10_000)

    assert detectable_drop(many, 0.01, 0.05) < detectable_drop(few, 0.01, 0.05)
    assert detectable_drop(few, 0.0, 0.05) < detectable_drop(few, 0.01, 0.05)
    assert detectable_drop(few, 0.01, 0.05) < detectable_drop(few, 0.01, 0.025)
    assert detectable_drop(observed(0, 2), 0.01, 0.05) == 1.0


@pytest.mark.parametrize(
    ("n", "changed", "drop", "alpha"), [(100, 0, 0.02, 0.05), (60, 2, 0.1, 0.01)]
)
def test_with_a_few_questions_less_an_unchanged_model_passes_less_often(
    n: int, changed: int, drop: float, alpha: float
) -> None:
    share = (changed + 2) / (n + 2) / 2
    most = 40  # gains or losses; more are improbable

    def power(questions: int) -> float:
        counts = range(min(most, questions) + 1)
        passed = [
            (gained, lost)
            for gained in counts
            for lost in counts
            if gained + lost <= questions
            and lost - gained < drop * questions
            and pass_p(changes_of_counts(gained, lost, questions), drop) < alpha
        ]
        gained, lost = np.array(passed).T
        chances = binom.pmf(gained, questions, share) * binom.pmf(
            lost, questions - gained, share / (1 - share)
        )
        return float(chances.sum())

    needed = questions_needed(observed(changed, n), drop, alpha)

    assert power(needed) >= POWER > power(round(0.95 * needed))


def test_the_questions_needed_by_hand() -> None:
    # 308 of 1,319 changed (the real answers of two models), accepted drop 1 point: a normal test.
    needed = questions_needed(changes_of_counts(144, 164, 1319), 0.01, 0.05)

    assert needed == pytest.approx((1.6449 + 0.8416) ** 2 * 0.2347 / 0.01**2, rel=0.01)
    assert questions_needed(observed(20, 400), 0.0, 0.05) is None


@pytest.mark.parametrize(
    ("n", "repeats", "drop"), [(30, 16, 0.01), (100, 4, 0.01), (200, 16, 0.02)]
)
def test_with_repeats_a_drop_is_found_however_it_is_spread(
    n: int, repeats: int, drop: float
) -> None:
    rng = np.random.default_rng(5)
    unchanged = [
        paired_changes(
            few_changes(rng, n=n, repeats=repeats, drop=0, shape="even"), np.arange(n), repeats
        )
        for _ in range(9)
    ]
    true = float(np.median([detectable_drop(changes, drop, 0.05) for changes in unchanged]))

    for shape in ("even", "sure"):
        called = []
        for _ in range(200):
            change = few_changes(rng, n=n, repeats=repeats, drop=true, shape=shape)
            changes = paired_changes(change, np.arange(n), repeats)
            called.append(regression_p(changes, drop) < 0.05)
        assert np.mean(called) > POWER - 0.09  # three standard errors


def test_repeats_do_not_make_30_questions_enough() -> None:
    """Without a loss among n questions, drops above about 3 / n are excluded, however small the noise is."""
    noise = paired_changes(np.tile([1 / 64, -1 / 64], 15), np.arange(30), 64)

    assert questions_needed(noise, 0.05, 0.05) == ceil(log(0.05) / log(0.95)) == 59
    assert questions_needed(noise, 0.01, 0.05) == 299


def test_the_questions_needed_of_passages_are_questions() -> None:
    change = np.tile([1.0, 0.0, 0.0, -1.0], 100)  # in passages of 4

    needed = questions_needed(paired_changes(change, np.repeat(np.arange(100), 4)), 0.05, 0.05)

    assert needed == ceil(4 * log(0.05) / log(0.95)) == 234


def test_the_questions_needed_with_repeats_are_those_of_students_t() -> None:
    rng = np.random.default_rng(4)
    change = rng.choice([-0.5, 0.0, 0.5], 200, p=[0.2, 0.6, 0.2])  # half of the two repeats

    needed = questions_needed(paired_changes(change, np.arange(200), 2), 0.02, 0.05)

    variance = (200**2 * (change.var(ddof=1) / 200) + 2 * 0.25) / 202
    assert needed == pytest.approx(variance * ((1.6525 + 0.8416) / 0.02) ** 2, rel=0.002)


def test_the_table_of_what_n_can_show_is_the_one_that_is_computed() -> None:
    page = (Path(__file__).parents[2] / "docs" / "compare.md").read_text()
    rows = re.findall(r"^\| ([0-9,]+)(?: \(\w+\))? ((?:\| [0-9.]+ ){4})\|$", page, re.MULTILINE)
    assert [n for n, _ in rows] == ["100", "400", "1,319", "5,000", "14,042"]
    for shown, cells in rows:
        n = int(shown.replace(",", ""))
        possible, *drops = map(float, re.findall(r"[0-9.]+", cells))
        assert can_pass(n, possible / 100, 0.05)
        assert not can_pass(n, (possible - 0.1) / 100, 0.05)
        assert drops == [
            round(100 * drop_that_passes(n, changed, 0.05), 1) for changed in (0.05, 0.1, 0.2)
        ]


def test_an_unchanged_model_passes_as_often_as_is_said_beforehand() -> None:
    n, changed = 400, 0.1
    drop = drop_that_passes(n, changed, 0.05)
    rng = np.random.default_rng(1)
    passed = 0
    for _ in range(300):
        gained, lost, _rest = rng.multinomial(n, [changed / 2, changed / 2, 1 - changed])
        passed += pass_p(changes_of_counts(int(gained), int(lost), n), drop) < 0.05
    assert 0.72 < passed / 300 < 0.88
