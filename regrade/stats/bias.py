"""Signs of a judge's bias: verdicts that follow the length of an answer, its style, or its place in a pair."""

import numpy as np

from regrade.settings import StrictModel
from regrade.stats.estimates import FloatArray, IntArray, check_shapes
from regrade.stats.resampling import Estimate, bootstrap

_PARTS = 4
_MIN_ANSWERS = 20
"""Fewest answers for a statement about lengths."""
_PER_TRAIT = 10
"""Fewest questions for each coefficient of a regression."""
_MOST_STEPS = 50
_SINGULAR = 1e10
"""Condition number from which a regression has no single solution."""


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


class ControlledWins(StrictModel):
    """Wins of pairs if both answers were alike in what they look like, from 0 to 1, with intervals over questions."""

    length: Estimate | None
    """With answers of equal length; None if the regression has no solution."""
    style: Estimate | None
    """With answers of equal length, headings, list items and bold text."""
    n: int
    """Pairs."""


def length_bias(verdict: FloatArray, length: IntArray, cluster: IntArray) -> LengthBias | None:
    """Return the relation of verdicts and lengths; None for fewer than 20 answers.

    Args:
        verdict: Shape (n_answers,), no NaN.
        length: Shape (n_answers,), in characters.
        cluster: Shape (n_answers,), equal for answers to one question.
    """
    check_shapes(verdict, length, cluster)
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


def style_of(text: str) -> tuple[int, ...]:
    """Return what an answer looks like: its characters, headings, list items and bold texts."""
    lines = [line.lstrip() for line in text.splitlines()]
    items = sum(
        line.startswith(("- ", "* ", "+ ")) or line.partition(". ")[0].isdecimal() for line in lines
    )
    return len(text), sum(line.startswith("#") for line in lines), items, text.count("**") // 2


def controlled_wins(
    wins: FloatArray, candidate: IntArray, baseline: IntArray, cluster: IntArray
) -> ControlledWins | None:
    """Return the wins of pairs with length and style held equal; None for fewer than 20 questions.

    Args:
        wins: Shape (n_pairs,), 1 for the candidate, 0 for the baseline, 0.5 for a tie, or a mean of these.
        candidate: Shape (n_pairs, 4), `style_of` the candidate's answers.
        baseline: The same of the baseline's.
        cluster: Shape (n_pairs,), equal for pairs of one question.
    """
    if len(np.unique(cluster)) < _MIN_ANSWERS:
        return None
    total = (candidate + baseline).astype(np.float64)
    unlike = (candidate - baseline) / np.where(total > 0, total, 1.0)
    return ControlledWins(
        length=_wins_if_alike(wins, unlike[:, :1], cluster),
        style=_wins_if_alike(wins, unlike, cluster),
        n=len(wins),
    )


def _wins_if_alike(wins: FloatArray, unlike: FloatArray, cluster: IntArray) -> Estimate | None:
    """Return the wins at a difference of 0, by logistic regression of wins over differences; None if it has no solution.

    The method is that of length-controlled AlpacaEval (Dubois et al. 2024, arXiv 2404.04475) without its difficulty of
    instructions, which needs the pairs of many models, and of Arena's style control, whose differences (a - b) / (a + b) these
    are. Ties are halves (fractional logit: Papke and Wooldridge 1996), solved by Newton's method (iteratively reweighted least
    squares). The interval is that of the intercept, with errors clustered by question, put back to a share.
    """
    from scipy.special import expit, stdtrit

    varies = np.ptp(unlike, axis=0) > 0
    x = np.column_stack([np.ones(len(wins)), unlike[:, varies]])
    names, codes = np.unique(cluster, return_inverse=True)
    n_clusters, n_coefficients = len(names), x.shape[1]
    if n_clusters < _MIN_ANSWERS or n_clusters < _PER_TRAIT * n_coefficients:
        return None
    coefficients = np.zeros(n_coefficients)
    for _ in range(_MOST_STEPS):
        expected = expit(x @ coefficients)
        information = (x * (expected * (1 - expected))[:, np.newaxis]).T @ x
        if np.linalg.cond(information) > _SINGULAR:
            return None  # wins and losses are told apart by a trait, or two traits are one
        step = np.linalg.solve(information, x.T @ (wins - expected))
        coefficients += step
        if np.abs(step).max() < 1e-9:
            break
    else:
        return None
    expected = expit(x @ coefficients)
    inverse = np.linalg.inv((x * (expected * (1 - expected))[:, np.newaxis]).T @ x)
    scores = np.zeros((n_clusters, n_coefficients))
    np.add.at(scores, codes, x * (wins - expected)[:, np.newaxis])
    covariance = inverse @ (scores.T @ scores) @ inverse * n_clusters / (n_clusters - 1)
    half = float(stdtrit(n_clusters - n_coefficients, 0.975)) * float(np.sqrt(covariance[0, 0]))
    middle = float(coefficients[0])
    value, low, high = (float(expit(end)) for end in (middle, middle - half, middle + half))
    return Estimate(value=value, low=low, high=high)


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
