"""Compare two answer sets question by question: difference, interval, tests."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from regrade.answers.manifest import Manifest
from regrade.answers.result import Result
from regrade.answers.scorefile import ORIGINAL
from regrade.answers.sets import AnswerSet
from regrade.comparing.likeness import (
    FoundDifference,
    NotComparableError,
    check_alike,
    differences,
    judged_differences,
    judged_model,
)
from regrade.comparing.models import (
    Cluster,
    ComparedSide,
    Comparison,
    FlipExample,
    SubsetComparison,
    Test,
)
from regrade.comparing.pairing import MIN_COVERAGE, Pairs, pair, score_sides, shown_rows
from regrade.judging.labels.calibrated import UNCALIBRATED, labelled_verdicts
from regrade.judging.labels.items import verdicts_of
from regrade.judging.labels.stored import stored_labels
from regrade.judging.readings import judged_answers
from regrade.records.messages import asked
from regrade.records.rubrics.facts import answers_per_question, judge_run
from regrade.scoring.originals import first_scorer
from regrade.settings import Difference, ScoringOptions
from regrade.settings.errors import DamagedAnswersError, RepositoryError, SettingsError
from regrade.settings.turn_ids import question_numbers
from regrade.stats.corrected import (
    Corrected,
    LabelledVerdicts,
    corrected_difference,
    corrected_mean,
)
from regrade.stats.decision import PairedChanges, difference_interval, difference_p, paired_changes
from regrade.stats.estimates import IntArray
from regrade.stats.power import detectable_drop
from regrade.stats.scale import Scale, percent
from regrade.stats.significance import benjamini_hochberg, sign_flip_p

# The difference of two judged sides, corrected by people's labels of both.


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


def correct(sides: tuple[Result, Result], pairs: Pairs, clusters: IntArray) -> Correction | None:
    """Return the correction of a difference between verdicts of a judge; None without a judge.

    The prediction-powered difference of `corrected_difference`, over the paired questions: it also corrects a judge
    that prefers the style of one side, which a correction by the judge's overall errors would not.

    Args:
        sides: Baseline and candidate.
        pairs: The paired questions.
        clusters: Shape (n,), equal for paired questions that are not independent.
    """
    if judge_run(sides[0].answers.manifest.specification) is None:
        return None
    try:
        base, candidate = _judged(sides, pairs, clusters)
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


def _judged(
    sides: tuple[Result, Result], pairs: Pairs, paired_clusters: IntArray
) -> Iterator[LabelledVerdicts]:
    """Yield verdicts and labels of each side, as shares of the scale, for the paired questions and those without a verdict on a side.

    Questions have the cluster of their pair. Without a verdict, they are paired by their sample id.
    """
    all_verdicts = [verdicts_of(side) for side in sides]
    asked = [dict.fromkeys(sample_id for sample_id, _ in v.judged) for v in all_verdicts]
    paired = {*map(str, pairs.base_id), *map(str, pairs.candidate_id)}
    more = [sample_id for sample_id in asked[0] if sample_id in asked[1].keys() - paired]
    first = int(paired_clusters.max()) + 1
    for side, verdicts, ids in zip(
        sides, all_verdicts, (pairs.base_id, pairs.candidate_id), strict=True
    ):
        cluster = dict(zip(map(str, ids), paired_clusters.tolist(), strict=True))
        cluster |= {sample_id: first + number for number, sample_id in enumerate(more)}
        rows = [row for row, (sample_id, _) in enumerate(verdicts.judged) if sample_id in cluster]
        found = labelled_verdicts(verdicts, stored_labels(side.answers, verdicts.scheme.scale))
        scale = side.file.scale
        yield LabelledVerdicts(
            scale.shares(found.verdict[rows]),
            scale.shares(found.label[rows]),
            np.array([cluster[verdicts.judged[row][0]] for row in rows], np.int64),
            unsampled=found.unsampled,
        )


# Examples of questions that one side answered right and the other wrong, with both answers.

COLUMNS = ("sample_id", "repeat", "question", "prompt", "target", "text")


def flip_examples(
    sides: tuple[Result, Result], pairs: Pairs, count: int
) -> tuple[FlipExample, ...]:
    """Return the first flipped questions of each kind, by sample id, with the answers of `shown_rows`.

    Args:
        sides: Baseline and candidate.
        pairs: Paired questions of both sides.
        count: Largest number of examples of each kind.
    """
    if count == 0:
        return ()
    lost, gained = (np.flatnonzero(mask)[:count] for mask in (pairs.change < 0, pairs.change > 0))
    rows = np.concatenate([lost, gained])
    shown = [places[rows] for places in shown_rows(sides, pairs)]
    base, candidate = (_answers(side, at) for side, at in zip(sides, shown, strict=True))
    examples = []
    for row in rows:
        old, new = base[str(pairs.base_id[row])], candidate[str(pairs.candidate_id[row])]
        examples.append(
            FlipExample(
                kind="right to wrong" if pairs.change[row] < 0 else "wrong to right",
                question=str(pairs.base_id[row]),
                subset=str(pairs.subset[row]),
                prompt=asked(sides[0].answers.public(old)),
                target=old["target"],
                base_text=old["text"],
                base_extracted=old["extracted"],
                candidate_text=new["text"],
                candidate_extracted=new["extracted"],
            )
        )
    return tuple(examples)


def _answers(side: Result, places: IntArray) -> dict[str, dict[str, Any]]:
    """Return the answers in some rows by sample id, with the extracted answer."""
    answers: dict[str, dict[str, Any]] = {}
    start = 0
    for batch in side.answers.batches(COLUMNS):
        rows = places[(places >= start) & (places < start + batch.num_rows)]
        stored = batch.take(pa.array(rows - start, pa.int64())).to_pylist()
        for row, answer in zip(rows, stored, strict=True):
            extracted = side.scores["extracted"][int(row)].as_py()
            answers[answer["sample_id"]] = answer | {"extracted": extracted}
        start += batch.num_rows
    return _with_judged(side, answers)


def _with_judged(side: Result, replies: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the rows of a judge run with the judged answer before the judge's reply, if it is available; other rows unchanged."""
    run = judge_run(side.answers.manifest.specification)
    if run is None or not replies:
        return replies
    try:
        judged = judged_answers(side.answers)
    except (SettingsError, RepositoryError, DamagedAnswersError):
        return replies  # a note of the comparison names the missing answers
    found = {}
    for sample_id, row in replies.items():
        given = judged.get((sample_id, run.place(row["repeat"])[0]))
        found[sample_id] = row
        if given is not None:
            text = f"{given.answer}\n\nverdict of the judge: {row['text']}"
            found[sample_id] = row | {"prompt": given.question, "text": text}
    return found


LEVEL = 0.05
"""Significance level: two-sided for tests and intervals, and the accepted share of false claims among subsets."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison, and the changes for its tests."""

    comparison: Comparison
    changes: PairedChanges
    pairs: Pairs
    sides: tuple[Result, Result]
    """Baseline and candidate, with their scores."""


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """Options of a comparison."""

    allow: tuple[Difference, ...] = ()
    """Accepted differences other than the model."""
    min_coverage: float | None = None
    """Required share of the larger side's questions; None: 0.9. With `overlap` in `allow`, less is accepted."""
    scorer: str | None = None
    """Scorer of both sides. None: the baseline's first scorer that the candidate also has."""
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
    scorer = options.scorer or _scorer_of(base, candidate)
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
            f"{len(pairs.base):,} of {max(n_samples):,} questions ({percent(coverage)}) have a value on both sides, "
            f"{percent(required, None)} are needed"
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
    return _compared(sides, pairs, coverage, options, allowed, notes, same=same)


def _without_floor(sides: tuple[Result, Result]) -> Iterator[FoundDifference]:
    """Yield a difference for each side with too few verdicts for a headline number, because the missing ones may differ from the rest."""
    for name, side in zip(("baseline", "candidate"), sides, strict=True):
        if side.file.low_coverage is not None:
            yield (
                "overlap",
                f"the judge gave a verdict on {percent(side.file.low_coverage)} of the {name}'s answers only, which is below the floor "
                "of its scoring",
            )


def _same_answers(base: AnswerSet, candidate: AnswerSet) -> bool:
    """Return True for one answer set with the same answers, even if a copy is in another repository."""
    same_id = base.manifest.answer_set_id == candidate.manifest.answer_set_id
    shards = [{*answers.hashes} for answers in (base, candidate)]
    return same_id and shards[0] == shards[1]


def _compared(
    sides: tuple[Result, Result],
    pairs: Pairs,
    coverage: float,
    options: CompareOptions,
    allowed: Sequence[str],
    notes: Sequence[str],
    *,
    same: bool,
) -> Compared:
    base, candidate = (side.answers.manifest.specification for side in sides)
    n = len(pairs.base)
    by_subset = options.cluster == "subset" and len(set(pairs.subset)) > 1
    numbers = np.array(question_numbers(map(str, pairs.base_id)), np.int64)
    clusters = pairs.subset_codes if by_subset else numbers
    # Scaled to whole numbers, the permutation test is exact; its result does not depend on the scale.
    factor = base.repeats if base.repeats == candidate.repeats else 1
    changes = paired_changes(pairs.change, clusters, factor)
    scale = sides[0].file.scale
    correction = correct(sides, pairs, clusters)
    if correction is not None and correction.change is not None:
        changes = changes.by_labels(correction.change)
    low, high = difference_interval(changes, 1 - LEVEL)
    apart = not by_subset and len(np.unique(clusters)) == n  # turns of a conversation are not
    single = base.repeats == candidate.repeats == 1 and apart
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
        examples=flip_examples(sides, pairs, options.examples),
        same_answers=same,
        allowed=tuple(allowed),
        notes=(*notes, *(correction.notes if correction else ())),
    )
    return Compared(comparison, changes, pairs, sides)


def _subsets(
    pairs: Pairs, clusters: IntArray, factor: int, scale: Scale
) -> tuple[SubsetComparison, ...]:
    codes = pairs.subset_codes
    names = np.unique(pairs.subset)
    if len(names) < 2 or len(np.unique(clusters)) == len(names):
        return ()  # each subset is a passage, which is not tested by itself
    rows = [np.flatnonzero(codes == code) for code in range(len(names))]
    sums = (np.bincount(clusters[row], weights=pairs.change[row] * factor) for row in rows)
    p_values = [sign_flip_p(of_subset.astype(np.float64)) for of_subset in sums]
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


def _scorer_of(base: AnswerSet, candidate: AnswerSet) -> str:
    if first_scorer(base) == ORIGINAL == first_scorer(candidate):
        return ORIGINAL
    return common_scorer(base.manifest, candidate.manifest)


def common_scorer(base: Manifest, candidate: Manifest) -> str:
    """Return the baseline's first scorer that the candidate also has.

    Raises:
        NotComparableError: If there is none.
    """
    base_scorers, candidate_scorers = base.scorers, candidate.scorers
    for name in base_scorers:
        if name in candidate_scorers:
            return name
    problem = (
        f"the baseline is scored by {', '.join(base_scorers)}, the candidate by {', '.join(candidate_scorers)}; "
        "choose one scorer for both with `--scorer`"
    )
    raise NotComparableError([problem], ())


def _side(side: Result) -> ComparedSide:
    manifest, overall = side.answers.manifest, side.file.summary.overall
    return ComparedSide(
        model=judged_model(manifest.specification),
        answer_set_id=manifest.answer_set_id,
        repository=side.answers.repository.uri,
        revision=side.answers.revision,
        questions=manifest.n_samples,
        rows=manifest.rows,
        expected_rows=manifest.expected,
        repeats=answers_per_question(manifest.specification),
        accuracy=overall.accuracy,
        accuracy_stderr=overall.accuracy_stderr,
        unparsed=overall.unparsed + (overall.unfinished or 0),
        truncated=overall.truncated,
        failed=overall.failed,
        figures=side.figures,
    )
