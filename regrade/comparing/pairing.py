"""Whose answers are to the same questions: by sample id, which is a hash of the content, else by what is stored."""

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import Literal

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from regrade.answers.sets import AnswerSet
from regrade.errors import DamagedAnswersError
from regrade.scoring.score import score_answers
from regrade.stats.estimates import FloatArray, IntArray

ENOUGH = 0.9
"""Share of the smaller side below which sample ids are taken to be of different making."""
Strings = NDArray[np.object_]
PairedBy = Literal["sample_id", "prompt"]


@dataclass(frozen=True, slots=True)
class Graded:
    """One side, graded."""

    answers: AnswerSet
    title: str
    """Scorer, version and source hash."""
    scores: pa.Table
    """`SCORE_SCHEMA`, a row per generation."""


@dataclass(frozen=True, slots=True)
class Questions:
    """The questions of one side that have a value, each once."""

    sample_id: Strings
    """Shape (n_questions,)."""
    subset: Strings
    value: FloatArray
    """Mean over the question's repeats, in [0, 1]."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """The questions that both sides have a value of; all of shape (n,), in the order of the baseline's ids."""

    base_id: Strings
    candidate_id: Strings
    subset: Strings
    base: FloatArray
    candidate: FloatArray
    by: PairedBy

    @property
    def change(self) -> FloatArray:
        """Candidate minus baseline."""
        return self.candidate - self.base

    @property
    def subset_codes(self) -> IntArray:
        """A number for each subset."""
        return np.unique(self.subset.astype(str), return_inverse=True)[1].astype(np.int64)


def grade(answers: AnswerSet, scorer: str) -> Graded:
    """Return the scores of the scorer as it is now: as stored, else made from the stored answers and not kept.

    Raises:
        SettingsError: If the scorer does not fit these answers.
        DamagedAnswersError: If answers or scores are not what they should be.
    """
    scored = score_answers(answers, scorer)
    file = scored.file
    if scored.table is not None:
        table = scored.table
    else:
        table = answers.score_table(file.label)
        if table.num_rows != answers.manifest.rows:
            raise DamagedAnswersError(
                f"{answers.scores_folder}/{file.label}.parquet",
                f"it has {table.num_rows:,} rows, the answers have {answers.manifest.rows:,}. Grade them again "
                "with `regrade score --force`.",
            )
    return Graded(answers, f"{file.scorer} v{file.version} {file.source_hash}", table)


def questions(graded: Graded) -> Questions:
    """Return the mean value of every question that has one; rows without a value are missing, not wrong."""
    table = graded.scores
    value = table["value"].to_numpy().astype(np.float64)
    failed = table["outcome"].to_numpy() == "failed"
    there = np.isfinite(value) & ~failed
    value = np.clip(value[there], 0.0, 1.0)
    ids, first, codes = np.unique(
        table["sample_id"].to_numpy()[there].astype(str), return_index=True, return_inverse=True
    )
    count = np.bincount(codes, minlength=len(ids))
    sums = np.bincount(codes, weights=value, minlength=len(ids))
    mean: FloatArray = sums / np.maximum(count, 1)
    return Questions(ids.astype(object), table["subset"].to_numpy()[there][first], mean)


def pair(base: Graded, candidate: Graded) -> Pairs:
    """Return the questions that both sides have a value of, which may be none."""
    one, two = questions(base), questions(candidate)
    found = _matched(one, two, one.sample_id, two.sample_id, "sample_id")
    if len(found.base) >= ENOUGH * min(len(one.value), len(two.value)):
        return found
    keys = [_content_keys(side.answers) for side in (base, candidate)]
    by_content = _matched(one, two, _keyed(one, keys[0]), _keyed(two, keys[1]), "prompt")
    return by_content if len(by_content.base) > len(found.base) else found


def _matched(one: Questions, two: Questions, old: Strings, new: Strings, by: PairedBy) -> Pairs:
    _, left, right = np.intersect1d(
        old.astype(str), new.astype(str), assume_unique=True, return_indices=True
    )
    return Pairs(
        one.sample_id[left],
        two.sample_id[right],
        one.subset[left],
        one.value[left],
        two.value[right],
        by,
    )


def _keyed(side: Questions, keys: dict[str, str]) -> Strings:
    return np.array([keys[one] for one in side.sample_id], dtype=object)


def _content_keys(answers: AnswerSet) -> dict[str, str]:
    """Return a hash of prompt, target and choices for each sample id; what is the same is numbered."""
    rows: dict[str, tuple[int, str]] = {}
    for batch in answers.batches(["sample_id", "index", "prompt", "target", "choices"]):
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
    return keys
