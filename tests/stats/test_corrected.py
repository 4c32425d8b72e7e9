from itertools import combinations

import numpy as np
import pytest

from regrade.stats.corrected import (
    MIN_LABELLED,
    Calibration,
    LabelledVerdicts,
    corrected_difference,
    corrected_mean,
    rogan_gladen,
)


def judged(
    rng: np.random.Generator, n: int, m: int, sensitivity: float, specificity: float
) -> LabelledVerdicts:
    right = rng.random(n) < 0.7
    verdict = np.where(right, rng.random(n) < sensitivity, rng.random(n) > specificity)
    label = np.where(np.arange(n) < m, right, np.nan)
    return LabelledVerdicts(verdict.astype(float), label, np.arange(n))


def test_with_a_binary_verdict_it_weighs_each_verdict_by_its_share() -> None:
    answers = judged(np.random.default_rng(0), 1000, 200, 0.9, 0.8)
    known = ~np.isnan(answers.label)
    yes = answers.verdict == 1
    share = answers.verdict.mean()
    by_verdict = (
        share * answers.label[known & yes].mean() + (1 - share) * answers.label[known & ~yes].mean()
    )

    # Equal up to the spread of the verdicts, which is estimated from all answers, not from the labelled ones.
    assert corrected_mean(answers).value == pytest.approx(by_verdict, abs=2e-3)


@pytest.mark.parametrize(
    ("wrong", "judged_wrong"), [((0,), (0,)), ((0, 1), (1, 2)), ((0, 5), ()), ((3,), (0, 1, 4))]
)
def test_over_all_samples_that_may_be_labelled_the_figure_is_the_truth(
    wrong: tuple[int, ...], judged_wrong: tuple[int, ...]
) -> None:
    n, m = 13, MIN_LABELLED
    truth, verdict = np.ones(n), np.ones(n)
    truth[list(wrong)], verdict[list(judged_wrong)] = 0, 0

    values = []
    for rows in combinations(range(n), m):
        label = np.full(n, np.nan)
        label[list(rows)] = truth[list(rows)]
        values.append(corrected_mean(LabelledVerdicts(verdict, label, np.arange(n))).value)

    assert np.mean(values) == pytest.approx(truth.mean(), abs=1e-12)


def test_labels_without_a_wrong_answer_leave_the_verdicts_their_weight() -> None:
    verdict = (np.arange(100) % 10 > 0).astype(float)
    label = np.full(100, np.nan)
    label[1:10] = label[11:14] = 1.0  # all labelled answers are right, and the judge says so

    assert corrected_mean(LabelledVerdicts(verdict, label, np.arange(100))).value < 0.93


def test_it_is_the_mean_of_the_labels_if_all_answers_are_labelled() -> None:
    answers = judged(np.random.default_rng(1), 300, 300, 0.8, 0.8)

    corrected = corrected_mean(answers)

    assert corrected.value == pytest.approx(answers.label.mean())
    assert corrected.stderr == pytest.approx(answers.label.std(ddof=1) / np.sqrt(300), rel=0.05)


def test_a_judge_that_knows_nothing_leaves_the_labels() -> None:
    rng = np.random.default_rng(2)
    label = np.where(np.arange(500) < 100, rng.random(500) < 0.6, np.nan)
    constant = LabelledVerdicts(np.ones(500), label, np.arange(500))

    assert corrected_mean(constant).value == pytest.approx(np.nanmean(label))


def test_the_interval_covers_the_truth_at_100_labels() -> None:
    covered = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        low, high = corrected_mean(judged(rng, 500, 100, 0.8, 0.7)).interval()
        covered.append(low <= 0.7 <= high)

    assert np.mean(covered) >= 0.94


def test_a_judge_without_an_error_among_the_labels_still_has_an_uncertain_mean() -> None:
    verdict = (np.arange(1000) % 2).astype(float)
    label = np.where(np.arange(1000) < 100, verdict, np.nan)

    low, high = corrected_mean(LabelledVerdicts(verdict, label, np.arange(1000))).interval()

    of_verdicts = 2 * 1.96 * 0.5 / np.sqrt(1000)
    assert high - low > 1.2 * of_verdicts


def test_fewer_labelled_questions_than_needed_give_no_figure() -> None:
    verdict = np.ones(100)
    label = np.full(100, np.nan)
    label[:50] = 1
    questions = np.minimum(np.arange(100) // 10, MIN_LABELLED - 2)

    assert corrected_mean(LabelledVerdicts(verdict, label, questions)) is None


def test_answers_to_one_question_are_not_independent() -> None:
    rng = np.random.default_rng(3)
    verdict = np.repeat(rng.integers(0, 2, 100), 5).astype(float)
    wrong = np.repeat(rng.random(100) < 0.2, 5)
    label = np.where(np.arange(500) < 200, np.where(wrong, 1 - verdict, verdict), np.nan)

    alone = corrected_mean(LabelledVerdicts(verdict, label, np.arange(500)))
    grouped = corrected_mean(LabelledVerdicts(verdict, label, np.repeat(np.arange(100), 5)))

    assert grouped.value == pytest.approx(alone.value)
    assert grouped.stderr > 1.7 * alone.stderr


def test_a_difference_is_paired() -> None:
    rng = np.random.default_rng(4)
    right = rng.random(800) < 0.6
    same = LabelledVerdicts(
        right.astype(float), np.where(np.arange(800) < 200, right, np.nan), np.arange(800)
    )
    apart = LabelledVerdicts(same.verdict, same.label, np.arange(800) + 800)

    paired, independent = corrected_difference(same, same), corrected_difference(same, apart)

    assert paired.value == independent.value == 0
    assert paired.stderr < 0.6 * independent.stderr


def test_a_judge_that_likes_a_side_more_is_corrected() -> None:
    rng = np.random.default_rng(5)
    right = (rng.random(4000) < 0.5).astype(float)
    flattered = np.where(rng.random(4000) < 0.3, 1.0, right)
    label = np.where(np.arange(4000) < 1000, right, np.nan)
    base = LabelledVerdicts(right, label, np.arange(4000))
    candidate = LabelledVerdicts(flattered, label, np.arange(4000))

    difference = corrected_difference(base, candidate)

    assert flattered.mean() - right.mean() > 0.1
    assert abs(difference.value) < 2 * difference.stderr


def test_rogan_and_gladens_correction_of_an_exact_rate_is_exact() -> None:
    # Of 1,000 answers 600 are right; sensitivity 0.9 and specificity 0.8 give 540 + 80 right verdicts.
    verdict = np.r_[np.ones(620), np.zeros(380)]

    corrected = rogan_gladen(verdict, np.arange(1000), Calibration(100, 90, 50, 40))

    assert corrected[0] == pytest.approx(0.6)
    assert corrected[1] < 0.6 < corrected[2]


@pytest.mark.parametrize("calibration", [Calibration(100, 50, 100, 40), Calibration(0, 0, 50, 40)])
def test_a_judge_that_tells_nothing_gives_no_correction(calibration: Calibration) -> None:
    assert rogan_gladen(np.ones(10), np.arange(10), calibration) is None


@pytest.mark.parametrize(
    "verdict", [np.repeat(np.arange(100) % 2, 5), np.tile([1, 0, 0, 0, 0], 100)]
)
def test_repeats_widen_rogan_and_gladens_interval(verdict: np.ndarray) -> None:
    known = Calibration(100, 90, 100, 90)

    alone = rogan_gladen(verdict.astype(float), np.arange(500), known)
    grouped = rogan_gladen(verdict.astype(float), np.repeat(np.arange(100), 5), known)

    assert grouped[2] - grouped[1] > 1.2 * (alone[2] - alone[1])


def test_p_values_follow_from_the_interval() -> None:
    corrected = corrected_mean(judged(np.random.default_rng(6), 500, 100, 0.9, 0.9))
    low, high = corrected.interval()

    assert corrected.below_p(high) == pytest.approx(0.025)
    assert corrected.below_p(low) == pytest.approx(0.975)
