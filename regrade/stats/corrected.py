"""Mean of people's labels, estimated from the verdicts of a judge on all answers and the labels of some of them.

`corrected_mean` and `corrected_difference` need labels of a random part of the same answers; over all such parts they are
right on average, however bad the judge. `rogan_gladen` takes labels of other answers, and assumes that the judge errs on
these answers as often as on those. `perf/judged_intervals.py` simulates how often the intervals contain the truth.
"""

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from regrade.stats.estimates import Z_95, FloatArray, IntArray, check_shapes

MIN_LABELLED = 10
"""Least labelled questions for a corrected figure."""


@dataclass(frozen=True, slots=True)
class Corrected:
    """A corrected mean or difference, in the unit of the verdicts."""

    value: float
    stderr: float
    df: float
    """Degrees of freedom of the interval's Student t."""
    labelled: int
    """Labelled answers."""
    below: float = 0.0
    """Distance down to the lowest truth that answers allow from which no sample was drawn."""
    above: float = 0.0
    """Distance up to the highest, likewise."""

    def interval(self) -> tuple[float, float]:
        """Return the two-sided 95 % interval, by Student's t, with the bounds of the answers that no sample was drawn from."""
        from scipy.special import stdtrit

        half = float(stdtrit(self.df, 0.975)) * self.stderr
        return self.value - half - self.below, self.value + half + self.above

    def negated(self) -> "Corrected":
        """Return the estimate with the sides exchanged."""
        return replace(self, value=-self.value, below=self.above, above=self.below)

    def below_p(self, value: float) -> float:
        """Return the one-sided p-value of an estimate this low if the truth were `value`."""
        from scipy.special import stdtr

        highest = self.value + self.above
        if self.stderr == 0:
            return 0.0 if highest < value else 1.0
        return float(stdtr(self.df, (highest - value) / self.stderr))


@dataclass(frozen=True, slots=True)
class LabelledVerdicts:
    """Verdicts on all answers of one side, and labels of a random part of them."""

    verdict: FloatArray
    """Shape (n_answers,), no NaN."""
    label: FloatArray
    """Shape (n_answers,); NaN if not labelled."""
    cluster: IntArray
    """Shape (n_answers,), equal for answers to one question, also on the other side of a comparison."""
    low: float = 0.0
    """Lowest possible label."""
    high: float = 1.0
    """Highest possible label."""
    unsampled: float = 0.0
    """Share of the answers that the random part was not drawn from; they may have any label."""

    def __post_init__(self) -> None:
        check_shapes(self.verdict, self.label, self.cluster)
        if not np.isfinite(self.verdict).all():
            raise ValueError("A verdict is not finite; leave missing verdicts out.")

    @property
    def labelled_clusters(self) -> int:
        """Questions with a label."""
        return len(np.unique(self.cluster[~np.isnan(self.label)]))


def corrected_mean(answers: LabelledVerdicts) -> Corrected | None:
    """Return the prediction-powered mean of the labels; None with fewer than `MIN_LABELLED` labelled questions.

    Estimate: labelled answers count with their labels, the others as predicted from their verdicts (PPI++: Angelopoulos,
    Duchi and Zrnic 2023, arXiv 2311.01453). The weight of the verdicts is the slope of labels over verdicts, from 0 for a
    useless judge to 1; it is 1 if all these verdicts are equal. Each label is compared with a prediction of the slope of the
    other labels (cross-prediction: Zrnic and Candès 2024, arXiv 2309.16598). With a slope that its own label moves, the
    figure would lean towards the labels' luck: by 3 points at 12 labels without a wrong answer among them.

    Interval: Student's t over questions, with one label more that exceeds the verdict by the whole scale and one that falls
    short of it. Without these two (the addition of Agresti and Coull, and of Bonett and Price), a judge with few errors
    among the labels gets an interval that is too narrow, and one without any gets none.
    """
    side = _side(answers)
    if side is None:
        return None
    return Corrected(
        side.value, _error([side]), side.clusters - 2, side.labelled, side.below, side.above
    )


def corrected_difference(base: LabelledVerdicts, candidate: LabelledVerdicts) -> Corrected | None:
    """Return the prediction-powered difference of two sides under one judge, candidate minus baseline.

    Both sides have the same questions, by `cluster`, so that their errors are paired: what both share cancels out. The labels
    need not be of the same questions. None if a side has too few labels; method as in `corrected_mean`.
    """
    left, right = _side(base), _side(candidate)
    if left is None or right is None:
        return None
    df = min(left.clusters, right.clusters) - 2
    error = _error([replace(left, influence=-left.influence), right])
    return Corrected(
        right.value - left.value,
        error,
        df,
        left.labelled + right.labelled,
        right.below + left.above,
        right.above + left.below,
    )


@dataclass(frozen=True, slots=True)
class _Side:
    """Estimate of a side, and the influence of each cluster on it."""

    value: float
    clusters: int
    """Labelled questions."""
    labelled: int
    cluster: IntArray
    """Shape (n_clusters,)."""
    influence: FloatArray
    """Shape (n_clusters,): contribution of the question to the error of the estimate."""
    added: float
    """Variance of the two labels added."""
    below: float
    """Distance down to the lowest truth that answers allow from which no sample was drawn."""
    above: float


def _side(answers: LabelledVerdicts) -> _Side | None:
    rows = np.flatnonzero(~np.isnan(answers.label))
    n_clusters = answers.labelled_clusters
    if n_clusters < MIN_LABELLED:
        return None
    verdict, label = answers.verdict, answers.label[rows]
    known, others = verdict[rows], verdict[np.isnan(answers.label)]
    slopes = _slopes(known, label)
    value = float(label.mean())
    if len(others):
        predicted = slopes * (others.mean() - known)
        value += len(others) / len(verdict) * float(predicted.mean())
    weight = float(slopes.mean())
    residual = label - slopes * (known - verdict.mean())
    names, codes = np.unique(answers.cluster, return_inverse=True)
    unlabelled = np.bincount(codes, weights=weight * (verdict - verdict.mean())) / len(verdict)
    deviation = residual - residual.mean()
    labelled = np.bincount(codes[rows], weights=deviation, minlength=len(names)) / len(rows)
    # Two degrees of freedom are lost: the mean and the weight are estimated from the labels.
    labelled *= sqrt(n_clusters / (n_clusters - 2))
    return _Side(
        value,
        n_clusters,
        len(rows),
        names.astype(np.int64),
        np.asarray(unlabelled + labelled, np.float64),
        _added_variance(labelled, n_clusters, answers.high - answers.low),
        answers.unsampled * (value - answers.low),
        answers.unsampled * (answers.high - value),
    )


def _slopes(verdict: FloatArray, label: FloatArray) -> FloatArray:
    """Return the slope of the labels over the verdicts without each row, from 0 to 1; 1 if the other verdicts are equal."""
    n = len(verdict) - 1
    x, y = verdict - verdict.mean(), label - label.mean()
    # Sums over all rows but one, about the mean of these rows: the mean of n rows is -x / n, that of all rows is 0.
    spread = np.square(x).sum() - np.square(x) * (1 + 1 / n)
    covariance = (x * y).sum() - x * y * (1 + 1 / n)
    known = spread > 1e-9
    return np.where(known, np.clip(covariance / np.where(known, spread, 1.0), 0.0, 1.0), 1.0)


def _added_variance(influence: FloatArray, n_clusters: int, span: float) -> float:
    """Return the growth of the labelled part's variance if two questions with an error of the whole scale are added."""
    observed = float(np.square(influence).sum())
    n = n_clusters + 2
    added = 2 * span**2 / (n * (n - 2))
    return max(0.0, observed * (n_clusters / n) ** 2 + added - observed)


def _error(sides: list[_Side]) -> float:
    names = np.unique(np.concatenate([side.cluster for side in sides]))
    total = np.zeros(len(names))
    for side in sides:
        total[np.searchsorted(names, side.cluster)] += side.influence
    return sqrt(float(np.square(total).sum()) + sum(side.added for side in sides))


@dataclass(frozen=True, slots=True)
class Calibration:
    """Verdicts on answers whose true label is known, 0 or 1."""

    right: int
    """Answers that people call right."""
    right_found: int
    """Those of them that the judge calls right."""
    wrong: int
    wrong_found: int
    """Wrong answers that the judge calls wrong."""

    @property
    def sensitivity(self) -> float | None:
        """Share of right answers that the judge finds; None without right answers."""
        return self.right_found / self.right if self.right else None

    @property
    def specificity(self) -> float | None:
        """Share of wrong answers that the judge finds; None without wrong answers."""
        return self.wrong_found / self.wrong if self.wrong else None


def rogan_gladen(
    verdict: FloatArray, cluster: IntArray, calibration: Calibration
) -> tuple[float, float, float] | None:
    """Return the share of right answers behind the verdicts of a judge with known errors, with its interval, all from 0 to 1.

    None if the judge is no better than chance.

    Estimate: Rogan and Gladen 1978 (https://doi.org/10.1093/oxfordjournals.aje.a112510). Interval: Lee et al. 2025
    (arXiv 2511.21140), with their added counts and their shift of the middle. Repeats of a question count as fewer answers,
    by their clustered error.

    Args:
        verdict: Shape (n_answers,), 0 or 1.
        cluster: Shape (n_answers,), equal for answers to one question.
        calibration: Labelled answers from elsewhere, of both kinds.

    Raises:
        ValueError: If a verdict is neither 0 nor 1.
    """
    if not np.isin(verdict, (0.0, 1.0)).all():
        raise ValueError("Rogan and Gladen's correction needs verdicts of 0 and 1.")
    sensitivity, specificity = calibration.sensitivity, calibration.specificity
    if sensitivity is None or specificity is None or len(verdict) == 0:
        return None
    observed, n = float(verdict.mean()), _independent(verdict, cluster)
    z2 = Z_95**2
    p, n = (n * observed + z2 / 2) / (n + z2), n + z2
    spec, n_wrong = (calibration.wrong_found + 1) / (calibration.wrong + 2), calibration.wrong + 2
    sens, n_right = (calibration.right_found + 1) / (calibration.right + 2), calibration.right + 2
    informed = sens + spec - 1
    if informed <= 0 or sensitivity + specificity <= 1:
        return None
    theta = (p + spec - 1) / informed
    of_wrong, of_right = spec * (1 - spec) / n_wrong, sens * (1 - sens) / n_right
    middle = theta + 2 * z2 * (theta * of_right - (1 - theta) * of_wrong)
    variance = p * (1 - p) / n + (1 - theta) ** 2 * of_wrong + theta**2 * of_right
    half = Z_95 * sqrt(variance) / informed
    value = (observed + specificity - 1) / (sensitivity + specificity - 1)
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    value = min(1.0, max(0.0, value))
    return value, min(low, value), max(high, value)


def _independent(verdict: FloatArray, cluster: IntArray) -> float:
    """Return the number of independent answers that would have the same error of the mean."""
    names, codes = np.unique(cluster, return_inverse=True)
    n, n_clusters = len(verdict), len(names)
    if n == n_clusters:
        return float(n)
    sums = np.bincount(codes, weights=verdict - verdict.mean())
    if np.allclose(sums, 0):  # all questions have one mean, up to rounding
        return float(n_clusters)
    return min(float(n), float(verdict.var()) * n**2 / float(np.square(sums).sum()))
