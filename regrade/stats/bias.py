"""Signs of a judge's bias: verdicts that follow the length of an answer, or its place in a pair."""

import numpy as np

from regrade.settings import StrictModel
from regrade.stats.estimates import FloatArray, IntArray
from regrade.stats.resampling import Estimate, bootstrap

_PARTS = 4
_MIN_ANSWERS = 20
"""Fewest answers for a statement about lengths."""


class Quarter(StrictModel):
    """A quarter of the answers, by length."""

    shortest: int
    """Length of its shortest answer, in characters."""
    longest: int
    n: int
    mean: float
    """Mean verdict, in the unit of the scoring."""


class LengthBias(StrictModel):
    """Relation between verdicts and lengths of answers.

    Longer answers may also be better, which people's labels can show.
    """

    spearman: Estimate
    """Rank correlation of verdict and length, from -1 to 1, with its interval over questions."""
    quarters: tuple[Quarter, ...]
    """Ordered from the shortest answers to the longest."""


class OrderBias(StrictModel):
    """Preference of a pairwise judge for the answer that stands first."""

    prefers_first: Estimate
    """Share of verdicts for the first answer, ties counting half; 0.5 for a judge without preference."""
    inconsistent: float | None
    """Share of pairs whose verdict changes with the order; they count as ties. None: unknown."""
    n: int
    """Verdicts."""


def length_bias(verdict: FloatArray, length: IntArray, cluster: IntArray) -> LengthBias | None:
    """Return the relation of verdicts and lengths; None for fewer than 20 answers.

    Args:
        verdict: Shape (n_answers,), no NaN.
        length: Shape (n_answers,), in characters.
        cluster: Shape (n_answers,), equal for answers to one question.
    """
    if not verdict.shape == length.shape == cluster.shape:
        raise ValueError(
            f"Expected equal shapes, got {verdict.shape}, {length.shape} and {cluster.shape}."
        )
    if len(verdict) < _MIN_ANSWERS:
        return None
    order = np.argsort(length, kind="stable")
    quarters = tuple(
        Quarter(
            shortest=int(length[rows[0]]),
            longest=int(length[rows[-1]]),
            n=len(rows),
            mean=float(verdict[rows].mean()),
        )
        for rows in np.array_split(order, _PARTS)
    )
    return LengthBias(spearman=_spearman(verdict, length, cluster), quarters=quarters)


def order_bias(
    prefers_first: FloatArray, inconsistent: FloatArray, cluster: IntArray
) -> OrderBias | None:
    """Return the preference for the first answer of a pair; None without a verdict.

    Args:
        prefers_first: Shape (n_verdicts,): 1, 0, or 0.5 for a tie.
        inconsistent: Shape (n_verdicts,): 1 if the pair's verdict changes with the order; NaN if unknown.
        cluster: Shape (n_verdicts,), equal for verdicts on one question.
    """
    if not len(prefers_first):
        return None
    known = inconsistent[~np.isnan(inconsistent)]
    share = bootstrap(
        lambda weights: np.asarray(weights @ prefers_first / weights.sum(axis=1)), cluster
    )
    return OrderBias(
        prefers_first=share,
        inconsistent=float(known.mean()) if len(known) else None,
        n=len(prefers_first),
    )


def _spearman(first: FloatArray, second: IntArray, cluster: IntArray) -> Estimate:
    """Return Spearman's rank correlation; the ranks are those of all answers in every resample."""
    from scipy.stats import rankdata

    x, y = (ranks - ranks.mean() for ranks in (rankdata(first), rankdata(second)))

    def correlation(weights: FloatArray) -> FloatArray:
        n = weights.sum(axis=1)
        mean_x, mean_y = weights @ x / n, weights @ y / n
        covariance = weights @ (x * y) / n - mean_x * mean_y
        spread = (weights @ (x * x) / n - mean_x**2) * (weights @ (y * y) / n - mean_y**2)
        with np.errstate(divide="ignore", invalid="ignore"):
            result: FloatArray = covariance / np.sqrt(spread)
        return np.where(spread > 1e-12, result, np.nan)

    return bootstrap(correlation, cluster)
