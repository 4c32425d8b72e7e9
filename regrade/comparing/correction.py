"""The difference of two judged sides, corrected by people's labels of both."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regrade.comparing.pairing import Pairs, ScoredSide, Strings
from regrade.errors import DamagedAnswersError
from regrade.labels.calibrated import UNCALIBRATED, random_labels
from regrade.labels.items import verdicts_of
from regrade.labels.stored import stored_labels
from regrade.rubrics.facts import judge_run
from regrade.stats.corrected import (
    Corrected,
    JudgedAnswers,
    corrected_difference,
    corrected_mean,
)
from regrade.stats.estimates import IntArray


@dataclass(frozen=True, slots=True)
class Correction:
    """A comparison of verdicts, corrected by people's labels."""

    text: str
    """`uncalibrated`, or the method with the number of labels."""
    change: Corrected | None = None
    """Corrected difference, as a share of the scale; None if too few answers of a side are labelled."""
    means: tuple[float, float] = (np.nan, np.nan)
    """Corrected means of both sides, as shares of the scale."""
    notes: Sequence[str] = ()


def correct(
    sides: tuple[ScoredSide, ScoredSide], pairs: Pairs, clusters: IntArray
) -> Correction | None:
    """Return the correction of a difference between verdicts of a judge; None without a judge.

    The prediction-powered difference of `corrected_difference`, over the paired questions: a judge that likes the style of one
    side is corrected too, which a correction by the judge's overall errors would miss.

    Args:
        sides: Baseline and candidate.
        pairs: The paired questions.
        clusters: Shape (n,), equal for paired questions that are not independent.
    """
    if judge_run(sides[0].answers.manifest.specification) is None:
        return None
    try:
        base = _judged(sides[0], pairs.base_id, clusters)
        candidate = _judged(sides[1], pairs.candidate_id, clusters)
    except DamagedAnswersError as error:
        return Correction(UNCALIBRATED, notes=[f"The labels are not used: {error}"])
    change = corrected_difference(base, candidate)
    left, right = corrected_mean(base), corrected_mean(candidate)
    counts = [int((~np.isnan(side.label)).sum()) for side in (base, candidate)]
    labelled = f"{counts[0]:,} and {counts[1]:,} labels"
    if change is None or left is None or right is None:
        some = [f"Too few answers of a random part are labelled on a side: {labelled}."]
        return Correction(UNCALIBRATED, notes=some if any(counts) else ())
    return Correction(f"PPI++, {labelled}", change, (left.value, right.value))


def _judged(side: ScoredSide, paired_ids: Strings, paired_clusters: IntArray) -> JudgedAnswers:
    """Return verdicts and labels of the paired questions, as shares of the scale; questions have the cluster of their pair."""
    verdicts = verdicts_of(side.answers, side.file, side.scores)
    labels = random_labels(verdicts, stored_labels(side.answers, verdicts.scheme.scale))
    cluster = dict(zip(map(str, paired_ids), paired_clusters.tolist(), strict=True))
    rows = [place for place, (sample_id, _) in enumerate(verdicts.keys) if sample_id in cluster]
    clusters = np.array([cluster[verdicts.keys[row][0]] for row in rows], np.int64)
    scale = side.file.scale
    return JudgedAnswers(scale.shares(verdicts.value[rows]), scale.shares(labels[rows]), clusters)
