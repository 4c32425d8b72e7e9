"""Agreement between a judge and people, and among people: raw agreement, Cohen's kappa, Krippendorff's alpha.

The formulas are vectorised over bootstrap resamples. Tests compare them with published examples and with statsmodels.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from regrade.settings import StrictModel
from regrade.stats.estimates import FloatArray, IntArray, check_shapes, wilson_interval
from regrade.stats.resampling import Estimate, bootstrap

Level = Literal["nominal", "ordinal"]
"""Kind of the labels: names, or ordered steps."""


class Agreement(StrictModel):
    """Agreement of two raters over the units that both rated."""

    n: int
    labels: tuple[str, ...]
    table: tuple[tuple[int, ...], ...]
    """Units by the first rater's label (rows) and the second's (columns), in the order of `labels`."""
    raw: Estimate
    """Share of equal labels, with its Wilson interval."""
    kappa: Estimate
    """Cohen's kappa: agreement beyond chance, 1 at best, 0 at chance."""
    alpha: Estimate
    """Krippendorff's alpha at the level of the labels."""
    prevalence: tuple[tuple[float, float], ...]
    """Share of each label in the ratings of the first and of the second rater. Kappa is unstable if one label has nearly all."""


def agreement(
    first: IntArray,
    second: IntArray,
    clusters: IntArray,
    labels: Sequence[str],
    level: Level = "nominal",
) -> Agreement | None:
    """Return the agreement of two raters; None without a unit that both rated.

    Args:
        first: Shape (n_units,), position in `labels`; -1 if not rated.
        second: The same of the other rater.
        clusters: Shape (n_units,), equal for units that are not independent, such as answers to one question.
        labels: Labels, in ascending order if they are ordered.
        level: Kind of the labels, for alpha.

    Raises:
        ValueError: If the shapes differ, or a position is beyond the labels.
    """
    check_shapes(first, second, clusters)
    size = len(labels)
    if max(first.max(initial=-1), second.max(initial=-1)) >= size:
        raise ValueError(f"A rating is beyond the {size} labels.")
    both = (first >= 0) & (second >= 0)
    one, two, groups = first[both], second[both], clusters[both]
    n = len(one)
    if n == 0:
        return None
    cells = np.eye(size * size)[one * size + two]
    table = cells.sum(axis=0).reshape(size, size)
    counts = (np.eye(size)[one] + np.eye(size)[two]).astype(np.int64)
    shares = (table.sum(axis=1) / n, table.sum(axis=0) / n)
    return Agreement(
        n=n,
        labels=tuple(labels),
        table=tuple(tuple(int(count) for count in row) for row in table),
        raw=_raw((one == two).astype(np.float64), groups),
        kappa=bootstrap(
            lambda weights: cohen_kappa((weights @ cells).reshape(-1, size, size)), groups
        ),
        alpha=alpha_of(counts, groups, level),
        prevalence=tuple((float(a), float(b)) for a, b in zip(*shares, strict=True)),
    )


def cohen_kappa(tables: FloatArray) -> FloatArray:
    """Return Cohen's kappa of confusion tables; NaN if both raters gave all units one and the same label.

    Formula: Cohen 1960 (https://doi.org/10.1177/001316446002000104).

    Args:
        tables: Shape (..., n_labels, n_labels), not negative.
    """
    n = tables.sum(axis=(-2, -1))
    observed = np.trace(tables, axis1=-2, axis2=-1) / n
    expected = (tables.sum(axis=-1) * tables.sum(axis=-2)).sum(axis=-1) / np.square(n)
    with np.errstate(divide="ignore", invalid="ignore"):
        kappa: FloatArray = (observed - expected) / (1 - expected)
    return np.where(np.isclose(expected, 1), np.nan, kappa)


def alpha_of(counts: IntArray, clusters: IntArray, level: Level = "nominal") -> Estimate:
    """Return Krippendorff's alpha of any number of raters with missing ratings; without a value if it is not defined.

    Formula: Krippendorff 2011, https://repository.upenn.edu/asc_papers/43. Units with fewer than two ratings say nothing
    about agreement and are left out.

    Args:
        counts: Shape (n_units, n_labels), ratings of each unit by label.
        clusters: Shape (n_units,), equal for units that are not independent.
        level: Kind of the labels.
    """
    rated = counts.sum(axis=1) >= 2
    if not rated.any():
        return Estimate(value=None)
    used = counts[rated].astype(np.float64)
    n_labels = used.shape[1]
    pairs = used[:, :, None] * used[:, None, :] - np.einsum("ij,jk->ijk", used, np.eye(n_labels))
    coincidences = (pairs / (used.sum(axis=1) - 1)[:, None, None]).reshape(len(used), -1)
    return bootstrap(
        lambda weights: _alpha((weights @ coincidences).reshape(-1, n_labels, n_labels), level),
        clusters[rated],
    )


def _alpha(coincidences: FloatArray, level: Level) -> FloatArray:
    """Return alpha of matrices of coincidences, shape (n, n_labels, n_labels); NaN if only one label occurs."""
    totals = coincidences.sum(axis=-1)
    n = totals.sum(axis=-1)
    distances = _squared_distances(totals, level)
    observed = (coincidences * distances).sum(axis=(-2, -1))
    expected = (totals[:, :, None] * totals[:, None, :] * distances).sum(axis=(-2, -1))
    with np.errstate(divide="ignore", invalid="ignore"):
        alpha: FloatArray = 1 - (n - 1) * observed / expected
    return np.where(expected > 0, alpha, np.nan)


def _squared_distances(totals: FloatArray, level: Level) -> FloatArray:
    """Return the squared distance of each pair of labels, shape (n or 1, n_labels, n_labels)."""
    if level == "nominal":
        return 1 - np.eye(totals.shape[-1])[None]
    # Ordinal: ratings between two labels, both ends counted by half.
    middle = np.cumsum(totals, axis=-1) - totals / 2
    return np.square(middle[:, :, None] - middle[:, None, :])


def _raw(equal: FloatArray, clusters: IntArray) -> Estimate:
    """Return the share of equal ratings; groups of dependent units count by their number, not by their size."""
    n_clusters = len(np.unique(clusters))
    value = float(equal.mean())
    low, high = wilson_interval(min(value * n_clusters, n_clusters), n_clusters)
    return Estimate(value=value, low=low, high=high)
