"""Compare two answer sets question by question: difference, interval, tests."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from regrade.answers.sets import AnswerSet
from regrade.comparing.correction import correct
from regrade.comparing.examples import flip_examples
from regrade.comparing.judged import judged_differences, judged_model
from regrade.comparing.likeness import (
    FoundDifference,
    NotComparableError,
    check_alike,
    differences,
)
from regrade.comparing.models import Cluster, ComparedSide, Comparison, SubsetComparison, Test
from regrade.comparing.pairing import MIN_COVERAGE, Pairs, ScoredSide, pair, score_sides
from regrade.rubrics.facts import answers_per_question
from regrade.settings import Difference, ScoringOptions
from regrade.stats.decision import (
    PairedChanges,
    difference_interval,
    difference_p,
    paired_changes,
)
from regrade.stats.estimates import IntArray
from regrade.stats.metrics import summarise
from regrade.stats.power import detectable_drop
from regrade.stats.scale import Scale
from regrade.stats.significance import benjamini_hochberg, sign_flip_p

LEVEL = 0.05
"""Significance level: two-sided for tests and intervals, and the accepted share of false claims among subsets."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison, and the changes as its tests need them."""

    comparison: Comparison
    changes: PairedChanges
    pairs: Pairs
    sides: tuple[ScoredSide, ScoredSide]
    """Baseline and candidate, with their scores."""


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """Options of a comparison."""

    allow: tuple[Difference, ...] = ()
    """Accepted differences beside the model."""
    min_coverage: float | None = None
    """Required share of the larger side's questions; None: 0.9. With `overlap` in `allow`, less is accepted."""
    scorer: str | None = None
    """Scorer of both sides. None: the baseline's first scorer that the candidate has too."""
    cluster: Cluster = "question"
    examples: int = 0
    """Largest number of examples of each kind."""
    scoring: ScoringOptions | None = None
    """Options for scoring answers that have no stored scores."""


def compare_sets(base: AnswerSet, candidate: AnswerSet, options: CompareOptions) -> Compared:
    """Compare two answer sets question by question, both scored by the current version of one scorer.

    Raises:
        NotComparableError: If more than the model differs and `allow` does not list it, or no question can be paired.
        UnknownNameError: If the scorer is not installed.
        DamagedAnswersError: If answers are damaged.
    """
    differing, notes = judged_differences(base, candidate) or differences(
        base.manifest, candidate.manifest
    )
    check_alike(differing, options.allow)
    scorer = options.scorer or _common_scorer(base, candidate)
    sides = score_sides(base, candidate, scorer, options.scoring)
    if sides[0].file.scale != sides[1].file.scale:
        scales = " and ".join(f"{s.file.scale.low:g} to {s.file.scale.high:g}" for s in sides)
        raise NotComparableError([f"the scores have different scales, {scales}"], ())
    pairs = pair(*sides)
    n_samples = [answers.manifest.n_samples for answers in (base, candidate)]
    coverage = len(pairs.base) / max(n_samples)
    required = MIN_COVERAGE if options.min_coverage is None else options.min_coverage
    if len(pairs.base) == 0:
        problem = f"no question has a value on both sides ({n_samples[0]:,} and {n_samples[1]:,} were asked)"
        raise NotComparableError([problem], ())
    if coverage < required:
        text = (
            f"{len(pairs.base):,} of {max(n_samples):,} questions ({100 * coverage:.1f} %) have a value on both sides, "
            f"{100 * required:g} % are needed"
        )
        differing.append(("overlap", text))
    differing += _without_floor(sides)
    allowed = check_alike(differing, options.allow)
    same = _same_answers(base, candidate)
    if same:
        notes.insert(
            0,
            f"Both sides are answer set {base.manifest.answer_set_id}: it is compared with itself.",
        )
    if len(pairs.base) < min(n_samples):
        notes.append(
            f"{len(pairs.base):,} questions compared, of {n_samples[0]:,} and {n_samples[1]:,}."
        )
    compared = _compared(sides, pairs, coverage, options.cluster, options.examples, allowed, notes)
    if not same:
        return compared
    comparison = compared.comparison.model_copy(update={"same_answers": True})
    return replace(compared, comparison=comparison)


def _without_floor(sides: tuple[ScoredSide, ScoredSide]) -> Iterator[FoundDifference]:
    """Yield a difference for each side with too few verdicts for a headline number: those that it lacks may differ from the rest."""
    for name, side in zip(("baseline", "candidate"), sides, strict=True):
        if side.file.low_coverage is not None:
            yield (
                "overlap",
                f"the judge gave a verdict on {side.file.low_coverage:.1%} of the {name}'s answers only, which is below the floor "
                "of its scoring",
            )


def _same_answers(base: AnswerSet, candidate: AnswerSet) -> bool:
    """Return True for one answer set with the same answers, even if a copy is in another repository."""
    same_id = base.manifest.answer_set_id == candidate.manifest.answer_set_id
    shards = [{shard.sha256 for shard in answers.manifest.shards} for answers in (base, candidate)]
    return same_id and shards[0] == shards[1]


def _compared(
    sides: tuple[ScoredSide, ScoredSide],
    pairs: Pairs,
    coverage: float,
    cluster: Cluster,
    n_examples: int,
    allowed: Sequence[str],
    notes: Sequence[str],
) -> Compared:
    base, candidate = (side.answers.manifest.specification for side in sides)
    n = len(pairs.base)
    by_subset = cluster == "subset" and len(set(pairs.subset)) > 1
    clusters = pairs.subset_codes if by_subset else np.arange(n)
    # Scaled to whole numbers, the permutation test is exact; its result does not depend on the scale.
    factor = base.repeats if base.repeats == candidate.repeats else 1
    changes = paired_changes(pairs.change, clusters, factor)
    scale = sides[0].file.scale
    correction = correct(sides, pairs, clusters)
    if correction is not None and correction.change is not None:
        changes = changes.by_labels(correction.change)
    low, high = difference_interval(changes, 1 - LEVEL)
    single = base.repeats == candidate.repeats == 1 and not by_subset
    binary = bool(np.isin(pairs.change, (-1.0, 0.0, 1.0)).all())
    test: Test = "exact McNemar" if single and binary else "paired permutation"
    means = float(pairs.base.mean()), float(pairs.candidate.mean())
    if correction is not None and changes.corrected is not None:
        test, means = "corrected by labels, Student's t", correction.means
    comparison = Comparison(
        benchmark=base.benchmark.name,
        scale=scale,
        calibration=correction and correction.text,
        judged_difference=scale.span * float(pairs.change.mean()) if changes.corrected else None,
        scorer=sides[0].title,
        base=_side(sides[0]),
        candidate=_side(sides[1]),
        paired_by=pairs.by,
        n=n,
        coverage=coverage,
        clusters=len(np.unique(clusters)),
        base_accuracy=scale.value_of(means[0]),
        candidate_accuracy=scale.value_of(means[1]),
        difference=scale.span * changes.difference,
        low=scale.span * low,
        high=scale.span * high,
        right_to_wrong=int((pairs.change < 0).sum()),
        wrong_to_right=int((pairs.change > 0).sum()),
        test=test,
        p_value=difference_p(changes),
        detectable_drop=scale.span * detectable_drop(changes, 0.0, LEVEL / 2),
        subsets=_subsets(pairs, clusters, factor, scale),
        examples=flip_examples(sides, pairs, n_examples),
        allowed=tuple(allowed),
        notes=(*notes, *(correction.notes if correction else ())),
    )
    return Compared(comparison, changes, pairs, sides)


def _subsets(
    pairs: Pairs, clusters: IntArray, factor: int, scale: Scale
) -> tuple[SubsetComparison, ...]:
    codes = pairs.subset_codes
    names = np.unique(pairs.subset.astype(str))
    if len(names) < 2 or len(np.unique(clusters)) == len(names):
        return ()  # each subset is a passage, which is not tested alone
    rows = [np.flatnonzero(codes == code) for code in range(len(names))]
    p_values = [sign_flip_p(pairs.change[row] * factor) for row in rows]
    adjusted = benjamini_hochberg(p_values)
    return tuple(
        SubsetComparison(
            name=str(name),
            n=len(row),
            base=scale.value_of(float(pairs.base[row].mean())),
            candidate=scale.value_of(float(pairs.candidate[row].mean())),
            difference=scale.span * float(pairs.change[row].mean()),
            p_value=p,
            p_adjusted=q,
            moved=q <= LEVEL,
        )
        for name, row, p, q in zip(names, rows, p_values, adjusted, strict=True)
    )


def _common_scorer(base: AnswerSet, candidate: AnswerSet) -> str:
    base_scorers, candidate_scorers = base.manifest.scorers, candidate.manifest.scorers
    for name in base_scorers:
        if name in candidate_scorers:
            return name
    problem = (
        f"the baseline is scored by {', '.join(base_scorers)}, the candidate by {', '.join(candidate_scorers)}; "
        "choose one scorer for both with `--scorer`"
    )
    raise NotComparableError([problem], ())


def _side(side: ScoredSide) -> ComparedSide:
    manifest = side.answers.manifest
    overall = summarise(side.scores, {}, scale=side.file.scale).overall
    return ComparedSide(
        model=judged_model(manifest.specification),
        answer_set_id=manifest.answer_set_id,
        repository=side.answers.repository.uri,
        revision=side.answers.revision,
        questions=manifest.n_samples,
        rows=manifest.rows,
        expected_rows=manifest.n_samples * manifest.specification.repeats,
        repeats=answers_per_question(manifest.specification),
        accuracy=overall.accuracy,
        accuracy_stderr=overall.accuracy_stderr,
        unparsed=overall.unparsed + (overall.unfinished or 0),
        truncated=overall.truncated,
        failed=overall.failed,
    )
