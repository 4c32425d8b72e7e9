"""Standard errors, intervals and estimators: pure, deterministic functions of arrays."""

from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Z_95 = NormalDist().inv_cdf(0.975)


def clustered_standard_error(scores: FloatArray, cluster_ids: IntArray) -> float:
    """Return the cluster-robust standard error of the mean score.

    Repeated generations of a sample are not independent; they form a cluster.
    Formula: Miller 2024 (arXiv 2411.00640), appendix A, with the C / (C - 1) correction. With one score in each cluster, it is
    the sample standard deviation (n - 1) over the square root of n.

    Args:
        scores: Shape (n_scores,), no NaN.
        cluster_ids: Shape (n_scores,), equal for generations of the same sample.

    Returns:
        Standard error in the unit of `scores`; 0.0 if all clusters have the same mean.

    Raises:
        ValueError: If there are fewer than 2 clusters, the shapes differ, or a score is not finite.
    """
    _check(scores)
    if scores.shape != cluster_ids.shape:
        raise ValueError(f"{scores.shape} scores have {cluster_ids.shape} cluster ids.")
    _, codes = np.unique(cluster_ids, return_inverse=True)
    n_clusters = int(codes.max(initial=-1)) + 1
    if n_clusters < 2:
        raise ValueError(f"A clustered standard error needs 2 clusters or more, got {n_clusters}.")
    sums = np.bincount(codes, weights=scores - scores.mean())
    if np.abs(sums).max() <= 1e-12 * np.abs(scores).sum():  # only rounding: 1/3 has no exact mean
        return 0.0
    correction = n_clusters / (n_clusters - 1)
    return sqrt(correction * float(np.square(sums).sum())) / len(scores)


def wilson_interval(successes: float, n: int) -> tuple[float, float]:
    """Return the 95 % Wilson score interval of a proportion.

    It stays within [0, 1], and has a positive width even if all or none succeeded. Formula: Wilson 1927
    (https://doi.org/10.1080/01621459.1927.10502953), without continuity correction.

    Args:
        successes: From 0 to `n`; not an integer if scores lie between 0 and 1.
        n: Number of trials, at least 1.

    Raises:
        ValueError: If an argument is out of its range.
    """
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"Expected 0 to n successes of n >= 1 trials, got {successes} of {n}.")
    z = Z_95
    rate = successes / n
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z * sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return low, high


def normal_interval(mean: float, error: float) -> tuple[float, float]:
    """Return the 95 % normal interval of a mean in [0, 1], cut to [0, 1].

    Args:
        mean: In [0, 1].
        error: Standard error of the mean, not negative.
    """
    half = Z_95 * error
    return max(0.0, mean - half), min(1.0, mean + half)


def pass_at_k(n_generations: IntArray, n_correct: IntArray, k: int) -> FloatArray:
    """Return the unbiased estimate of pass@k for each sample.

    Formula: 1 - C(n - c, k) / C(n, k), Chen et al. 2021 (arXiv 2107.03374), as a product of k factors
    to avoid overflow.

    Args:
        n_generations: Shape (n_samples,), each at least `k`.
        n_correct: Shape (n_samples,), each from 0 to its `n_generations`.
        k: Number of draws, at least 1.

    Returns:
        Shape (n_samples,), each in [0, 1].

    Raises:
        ValueError: If a sample has fewer than `k` generations, or more correct ones than generations.
    """
    if k < 1 or np.any(n_generations < k):
        raise ValueError(f"pass@{k} needs k >= 1 and at least {k} generations of every sample.")
    if np.any(n_correct < 0) or np.any(n_correct > n_generations):
        raise ValueError(
            "Correct generations of a sample should be from 0 to its number of generations."
        )
    n_wrong = n_generations - n_correct
    none_right = np.ones(len(n_generations))
    for draw in range(k):
        none_right *= np.maximum(n_wrong - draw, 0) / (n_generations - draw)
    return 1.0 - none_right


def majority(sample_ids: IntArray, answers: IntArray) -> IntArray:
    """Return, for each sample, the position of the first vote for its most frequent answer.

    Of equally frequent answers, the first given wins.

    Args:
        sample_ids: Shape (n_votes,), not negative; the votes of a sample in the order given.
        answers: Shape (n_votes,), not negative, equal for equal answers.

    Returns:
        Shape (n_samples,), positions in the arguments, ordered by sample id.
    """
    if len(sample_ids) == 0:
        return np.empty(0, np.int64)
    pairs = sample_ids * (answers.max() + 1) + answers
    _, first, votes = np.unique(pairs, return_index=True, return_counts=True)
    order = np.lexsort((first, -votes, sample_ids[first]))
    best = first[order]
    is_new = np.r_[True, np.diff(sample_ids[best]) != 0]
    winners: IntArray = best[is_new]
    return winners


def check_shapes(*arrays: FloatArray | IntArray) -> None:
    """Refuse arrays of different shapes.

    Raises:
        ValueError: If their shapes differ.
    """
    *shapes, last = (array.shape for array in arrays)
    if any(shape != last for shape in shapes):
        raise ValueError(f"Expected equal shapes, got {', '.join(map(str, shapes))} and {last}.")


def _check(scores: FloatArray) -> None:
    if not np.isfinite(scores).all():
        raise ValueError("A score is not finite; leave missing scores out.")
