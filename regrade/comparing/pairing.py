"""Pair the answers of two sides to the same question: by sample id, else by stored prompt, target and choices."""

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import Literal

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from regrade.answers.result import Result
from regrade.answers.scorefile import ORIGINAL, ScoreFile, environment_suffix
from regrade.answers.sets import AnswerSet
from regrade.scoring.originals import original_results
from regrade.scoring.score import code_label, is_stale, score_answers
from regrade.settings import ScoringOptions
from regrade.stats.estimates import FloatArray, IntArray
from regrade.stats.metrics import score_values

MIN_COVERAGE = 0.9
"""Share of questions below which sample ids count as incompatible; default of `CompareOptions.min_coverage`."""
Strings = NDArray[np.object_]
"""Texts as objects: numpy's own texts lose a NUL at their end, so two ids could become one."""
PairedBy = Literal["sample_id", "prompt"]


@dataclass(frozen=True, slots=True)
class Questions:
    """Questions of one side that have a value; a repeated question is listed once."""

    sample_id: Strings
    """Shape (n_questions,)."""
    subset: Strings
    value: FloatArray
    """Mean over the question's repeats, as a share of the scale, in [0, 1]."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Questions that have a value on both sides; arrays of shape (n,), ordered by the key that paired them."""

    base_id: Strings
    candidate_id: Strings
    subset: Strings
    base: FloatArray
    candidate: FloatArray
    by: PairedBy

    @property
    def change(self) -> FloatArray:
        """Candidate minus baseline; 0 if only rounding tells two means of several answers apart."""
        change = self.candidate - self.base
        return np.where(np.abs(change) > 1e-9, change, 0.0)

    @property
    def subset_codes(self) -> IntArray:
        """Shape (n,): number of the subset of each question."""
        return np.unique(self.subset, return_inverse=True)[1].astype(np.int64)


def score_sides(
    base: AnswerSet, candidate: AnswerSet, scorer: str, options: ScoringOptions | None = None
) -> tuple[Result, Result]:
    """Return the scores of the current version of a scorer: stored, or else computed without storing them.

    Both sides are scored in one environment (sandbox, versions): that in which both were last scored, else this
    machine's with `options`.

    Raises:
        SettingsError: If the scorer cannot score these answers.
        DamagedAnswersError: If stored answers or scores are damaged.
    """
    if scorer == ORIGINAL:
        return original_results(base, candidate)
    first, second = _in_environments(base, scorer), _in_environments(candidate, scorer)
    common = [suffix for suffix in first if suffix in second]
    if common:
        newest = max(common, key=lambda suffix: first[suffix].scored_at)
        return Result(base, first[newest]).read(), Result(candidate, second[newest]).read()
    return (
        score_answers(base, scorer, options=options).read(),
        score_answers(candidate, scorer, options=options).read(),
    )


def _in_environments(answers: AnswerSet, scorer: str) -> dict[str, ScoreFile]:
    """Return the scorings of all answers by the scorer's current code, by the suffix of their environment."""
    return {
        environment_suffix(file.environment): file
        for file in answers.scores(code_label(scorer))
        if not is_stale(file, answers)
    }


def questions(side: Result) -> Questions:
    """Return the mean value of each question; rows without a value are missing, not wrong."""
    table = side.scores
    value = side.file.scale.shares(score_values(table))
    counted = ~np.isnan(value)
    value = np.clip(value[counted], 0.0, 1.0)
    ids, first, codes = np.unique(
        table["sample_id"].to_numpy()[counted], return_index=True, return_inverse=True
    )
    count = np.bincount(codes, minlength=len(ids))
    sums = np.bincount(codes, weights=value, minlength=len(ids))
    mean: FloatArray = sums / np.maximum(count, 1)
    return Questions(ids, table["subset"].to_numpy()[counted][first], mean)


def pair(base: Result, candidate: Result) -> Pairs:
    """Return the questions that have a value on both sides; may be empty."""
    left, right = questions(base), questions(candidate)
    by_id = _matched(left, right, left.sample_id, right.sample_id, "sample_id")
    if len(by_id.base) >= MIN_COVERAGE * min(len(left.value), len(right.value)):
        return by_id
    left_keys = _content_keys(base, left.sample_id)
    right_keys = _content_keys(candidate, right.sample_id)
    by_content = _matched(left, right, left_keys, right_keys, "prompt")
    return by_content if len(by_content.base) > len(by_id.base) else by_id


def shown_rows(sides: tuple[Result, Result], pairs: Pairs) -> tuple[IntArray, IntArray]:
    """Return the rows of the answers that stand for each pair, in the scores of the two sides; arrays of shape (n,).

    Of several answers to a question, these show how it changed: if its value fell, the baseline's best and the
    candidate's worst, else the reverse; the first of equal ones.
    """
    fell = pairs.change < 0
    return (
        _extreme_rows(sides[0], pairs.base_id, fell),
        _extreme_rows(sides[1], pairs.candidate_id, ~fell),
    )


def _extreme_rows(side: Result, ids: Strings, best: NDArray[np.bool_]) -> IntArray:
    """Return the row with the largest value of each question if `best`, else that with the smallest."""
    stored, value = side.scores["sample_id"].combine_chunks(), score_values(side.scores)
    repeat, wanted = side.scores["repeat"].to_numpy(), pa.array(ids, pa.string())

    def first(ranks: FloatArray) -> IntArray:
        order = pa.array(np.lexsort((repeat, ranks)), pa.int64())  # NaN, no value, is last
        rows = order.take(pc.index_in(wanted, value_set=stored.take(order)))
        return rows.to_numpy(zero_copy_only=False).astype(np.int64)

    return np.where(best, first(-value), first(value))


def _matched(
    base: Questions, candidate: Questions, base_keys: Strings, candidate_keys: Strings, by: PairedBy
) -> Pairs:
    _, left, right = np.intersect1d(
        base_keys, candidate_keys, assume_unique=True, return_indices=True
    )
    return Pairs(
        base.sample_id[left],
        candidate.sample_id[right],
        base.subset[left],
        base.value[left],
        candidate.value[right],
        by,
    )


def _content_keys(side: Result, sample_ids: Strings) -> Strings:
    """Return a hash of prompt, target and choices for each sample id; equal hashes are numbered."""
    rows: dict[str, tuple[int, str]] = {}
    for batch in side.answers.batches(["sample_id", "index", "prompt", "target", "choices"]):
        for row in batch.to_pylist():
            if row["prompt"] is None:
                key = f"no prompt {row['sample_id']}"
            else:
                content = orjson.dumps([row["prompt"], row["target"], row["choices"]])
                key = hashlib.sha256(content).hexdigest()
            rows.setdefault(row["sample_id"], (row["index"], key))
    seen: Counter[str] = Counter()
    keys: dict[str, str] = {}
    for sample_id, (_, key) in sorted(rows.items(), key=lambda item: (item[1][0], item[0])):
        seen[key] += 1
        keys[sample_id] = f"{key}-{seen[key]}"
    if not keys.keys() >= {*sample_ids}:
        raise side.answers.other_rows(side.file)
    return np.array([keys[sample_id] for sample_id in sample_ids], dtype=object)
