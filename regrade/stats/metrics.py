"""Metrics over the scores of an answer set, each with its n, its standard error and the number of missing rows."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from regrade.settings import StrictModel
from regrade.settings.turn_ids import question_numbers
from regrade.stats.estimates import (
    FloatArray,
    IntArray,
    clustered_standard_error,
    majority,
    normal_interval,
    pass_at_k,
    wilson_interval,
)
from regrade.stats.named import NamedMetric, named_metrics
from regrade.stats.scale import SHARES, Scale


class Metrics(StrictModel):
    """Metrics over some rows of scores. Rates are over `rows`, accuracy is over `n`.

    Accuracies, their errors and intervals are in the unit of the values: shares, or points of another scale.
    """

    rows: int
    """All generations."""
    n: int
    """Rows that have a value: scored, unparsed, unfinished or timeout. The other rows failed or are only measured: they
    are missing, not wrong."""
    samples: int
    """Questions behind `n`; fewer than `n` if questions were repeated, or are conversations, each with all its turns."""
    accuracy: float | None
    """Mean value of the `n` rows (unparsed, unfinished and timeout count 0); None if n is 0."""
    accuracy_stderr: float | None
    """Standard error of the mean, clustered by question if questions were repeated or have turns; None below 2 questions."""
    accuracy_low: float | None
    """Lower end of the 95 % interval. Without repeats: Wilson. With repeats: normal with the clustered error, or
    Wilson over the questions if that error is 0. None if n is 0, or for repeats of a single sample."""
    accuracy_high: float | None
    unparsed: int
    unparsed_rate: float | None
    unfinished: int | None = None
    """Rows whose reasoning never ended; `unparsed` does not include them. None in scorings of older versions, which
    count them as `unparsed`."""
    unfinished_rate: float | None = None
    timeouts: int | None = None
    """Rows for which the scorer did not come to a result within its limits; None in scorings of older versions, which
    have no time limits."""
    timeout_rate: float | None = None
    truncated: int
    truncated_rate: float | None
    failed: int


class SubsetMetrics(StrictModel):
    """Metrics of a subset, or of a category of subsets."""

    name: str
    category: str | None = None
    """Category of the subset; None for a category, and if the benchmark has no categories."""
    metrics: Metrics


class Summary(StrictModel):
    """All metrics of a scoring."""

    overall: Metrics
    """Micro average: all questions have equal weight."""
    samples: int | None = None
    """All questions, also those without a scored answer. None, and the standard errors and numbers of questions below are
    missing, in scorings stored before regrade recorded them."""
    macro_accuracy: float | None = None
    """Macro average: all subsets have equal weight. None without subsets."""
    macro_stderr: float | None = None
    """Standard error of the macro average, for these subsets: from the standard error of each. If a subset has only
    one question, from the spread of the subsets instead, which is larger."""
    macro_subsets: int | None = None
    """Subsets behind the macro average. Subsets in which every answer failed are left out."""
    subsets: tuple[SubsetMetrics, ...] = ()
    categories: tuple[SubsetMetrics, ...] = ()
    pass_at: dict[int, float] = Field(default_factory=dict)
    """pass@k by k (unbiased estimator, Chen et al. 2021, arXiv 2107.03374); empty without repeats."""
    pass_at_stderr: dict[int, float | None] = Field(default_factory=dict)
    """Standard error of pass@k, clustered by question, by k; None below 2 questions."""
    pass_at_samples: dict[int, int] = Field(default_factory=dict)
    """Questions, or turns of conversations, behind pass@k, by k: those with k scored answers or more. The others are left out."""
    majority_accuracy: float | None = None
    """Accuracy of the most frequent extracted answer per question; None without repeats."""
    majority_stderr: float | None = None
    majority_samples: int | None = None
    """Questions, or turns of conversations, behind the majority: those with a scored answer."""
    metrics: dict[str, NamedMetric] = Field(default_factory=dict)
    """Means of the named values that the scorer gives each answer beside its score, by name."""

    def averages(self) -> dict[str, float | int | None]:
        """Return macro average, pass@k and majority by name, each with its standard error and n."""
        named: dict[str, float | int | None] = {
            "macro_accuracy": self.macro_accuracy,
            "macro_stderr": self.macro_stderr,
            "macro_subsets": self.macro_subsets,
        }
        for k, value in self.pass_at.items():
            named[f"pass_at_{k}"] = value
            named[f"pass_at_{k}_stderr"] = self.pass_at_stderr.get(k)
            named[f"pass_at_{k}_samples"] = self.pass_at_samples.get(k)
        if self.majority_accuracy is not None:
            named["majority_accuracy"] = self.majority_accuracy
            named["majority_stderr"] = self.majority_stderr
            named["majority_samples"] = self.majority_samples
        return named


_Kind = Literal["unparsed", "unfinished", "timeout", "truncated", "measured", "ungraded"]
"""Kinds of rows that are counted. `ungraded` have no value although a judge answered: unparsed or truncated, and not failed."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """Scores as arrays, all of shape (n_rows,)."""

    sample: IntArray
    """Number of the sample, from 0."""
    question: IntArray
    """Number of the question, from 0; turns of a conversation have the same."""
    value: FloatArray
    """NaN if missing."""
    kinds: Mapping[_Kind, NDArray[np.bool_]]
    scale: Scale
    """Scale of the scorer; `value` is the share of it, from 0 to 1."""

    def at(self, rows: IntArray) -> "_Rows":
        kinds = {name: are[rows] for name, are in self.kinds.items()}
        return _Rows(self.sample[rows], self.question[rows], self.value[rows], kinds, self.scale)


def summarise(
    scores: pa.Table,
    groups: Mapping[str, Sequence[str]],
    *,
    votes: bool = True,
    passes: bool = True,
    scale: Scale = SHARES,
) -> Summary:
    """Return all metrics of a scoring.

    A row without a finite value is missing: it counts as failed and is left out of all means. pass@k is over the
    samples with a value for at least k repeats; the highest value of the scale passes. Majority is over the samples with a value for at
    least one repeat; unparsed answers do not vote.

    Args:
        scores: `SCORING_SCHEMA`, one row for each sample and repeat, in any order.
        groups: Names of subsets by category. Categories without rows are left out.
        votes: Equal extracted values are the same answer; without that there is no majority.
        passes: A value of 1 passes; without that there is no pass@k.
        scale: Scale of the values; means, errors and intervals are in its unit.
    """
    rows = _rows(scores, scale)
    subsets, categories = _breakdown(rows, scores, groups)
    summary = Summary(
        overall=_metrics(rows),
        samples=len(np.unique(rows.question)),
        subsets=subsets,
        categories=categories,
        metrics=named_metrics(scores),
        **_macro([subset.metrics for subset in subsets]),
    )
    repeat = scores["repeat"].to_numpy().astype(np.int64)
    n_repeats = int(repeat.max(initial=0)) + 1
    if n_repeats == 1:
        return summary
    question = np.zeros(int(rows.sample.max()) + 1, np.int64)
    question[rows.sample] = rows.question
    passed = _pass_at(rows, n_repeats) if passes else {}
    further: dict[str, Any] = {
        "pass_at": {k: float(np.nanmean(values)) for k, values in passed.items()},
        "pass_at_stderr": {k: _error(values, question) for k, values in passed.items()},
        "pass_at_samples": {k: int((~np.isnan(values)).sum()) for k, values in passed.items()},
    }
    if votes:
        voted = _majority_values(rows, repeat, scores)
        error, n = _error(voted, question), int((~np.isnan(voted)).sum())
        further["majority_accuracy"] = scale.value_of(float(np.nanmean(voted))) if n else None
        further["majority_stderr"] = None if error is None else scale.span * error
        further["majority_samples"] = n
    return summary.model_copy(update=further)


def score_values(scores: pa.Table) -> FloatArray:
    """Return the value of each row, shape (n_rows,); NaN if it failed, or its value is null or not finite."""
    value: FloatArray = scores["value"].to_numpy().astype(np.float64)
    failed = scores["outcome"].to_numpy() == "failed"
    return np.where(np.isfinite(value) & ~failed, value, np.nan)


def _error(values: FloatArray, question: IntArray) -> float | None:
    """Return the standard error of the mean of the values that are known, clustered by question; None below 2 questions."""
    known = ~np.isnan(values)
    several = len(np.unique(question[known])) > 1
    return clustered_standard_error(values[known], question[known]) if several else None


def _macro(subsets: Sequence[Metrics]) -> dict[str, Any]:
    """Return the macro average, its standard error and number of subsets, by field of `Summary`."""
    known = [subset for subset in subsets if subset.accuracy is not None]
    if not known:
        return {}
    accuracies = np.array([subset.accuracy for subset in known])
    errors = [subset.accuracy_stderr for subset in known]
    error = _error(accuracies, np.arange(len(known)))
    if None not in errors:
        error = float(np.sqrt(np.square(np.array(errors, np.float64)).sum()) / len(known))
    return {
        "macro_accuracy": float(accuracies.mean()),
        "macro_stderr": error,
        "macro_subsets": len(known),
    }


def _rows(scores: pa.Table, scale: Scale) -> _Rows:
    sample, names = _codes(scores, "sample_id")
    question = np.array(question_numbers(names), np.int64)
    value = scale.shares(score_values(scores))
    outcome, has_value = scores["outcome"].to_numpy(), ~np.isnan(value)
    ungraded = np.isin(outcome, _UNGRADED) & scores["value"].is_null().to_numpy()
    kinds: dict[_Kind, NDArray[np.bool_]] = {
        "unparsed": (outcome == "unparsed") & (ungraded | has_value),
        "unfinished": (outcome == "unfinished") & has_value,
        "timeout": (outcome == "timeout") & has_value,
        "truncated": scores["truncated"].to_numpy(),
        "measured": (outcome == "measured") & ~has_value,
        "ungraded": ungraded,
    }
    return _Rows(sample, question[sample], value, kinds, scale)


_UNGRADED = ("unparsed", "truncated")
"""Outcomes of a judge's replies that have no value, and yet are replies."""


def _codes(scores: pa.Table, column: str) -> tuple[IntArray, list[str]]:
    """Return the code of each row (-1 for null), and the distinct strings that the codes number."""
    encoded = scores[column].combine_chunks().dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy().astype(np.int64)
    return codes, [str(name) for name in encoded.dictionary.to_pylist()]


def _metrics(rows: _Rows) -> Metrics:
    counted = np.flatnonzero(~np.isnan(rows.value))
    value, sample = rows.value[counted], rows.question[counted]
    n_rows, n, n_samples = len(rows.value), len(counted), len(np.unique(sample))
    error, low, high = _uncertainty(value, sample, n_samples)
    of = rows.scale
    count = {name: int(are.sum()) for name, are in rows.kinds.items()}
    rate = {name: number / n_rows if n_rows else None for name, number in count.items()}
    return Metrics(
        rows=n_rows,
        n=n,
        samples=n_samples,
        accuracy=of.value_of(float(value.mean())) if n else None,
        accuracy_stderr=None if error is None else of.span * error,
        accuracy_low=of.value_of(low),
        accuracy_high=of.value_of(high),
        unparsed=count["unparsed"],
        unparsed_rate=rate["unparsed"],
        unfinished=count["unfinished"],
        unfinished_rate=rate["unfinished"],
        timeouts=count["timeout"],
        timeout_rate=rate["timeout"],
        truncated=count["truncated"],
        truncated_rate=rate["truncated"],
        failed=n_rows - n - count["measured"] - count["ungraded"],
    )


def _uncertainty(
    value: FloatArray, sample: IntArray, n_samples: int
) -> tuple[float | None, float | None, float | None]:
    """Return the standard error and the ends of the 95 % interval; None if undefined."""
    n, error = len(value), _error(value, sample)
    if n == 0 or n_samples == 1 < n:
        return None, None, None
    if n == n_samples or not error:  # a normal interval with an error of 0 would have no width
        return error, *wilson_interval(float(value.sum()) * n_samples / n, n_samples)
    return error, *normal_interval(float(value.mean()), error)


def _breakdown(
    rows: _Rows, scores: pa.Table, groups: Mapping[str, Sequence[str]]
) -> tuple[tuple[SubsetMetrics, ...], tuple[SubsetMetrics, ...]]:
    """Return the metrics of the subsets, sorted by name, and of the categories in the order of `groups`."""
    codes, names = _codes(scores, "subset")
    if names in ([], [""]):
        return (), ()
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(names)))
    members = dict(zip(names, np.split(order, ends[:-1]), strict=True))
    category = {name: group for group in reversed(list(groups)) for name in groups[group]}
    subsets = tuple(
        SubsetMetrics(
            name=name, category=category.get(name), metrics=_metrics(rows.at(members[name]))
        )
        for name in sorted(names)
    )
    present = {
        group: [members[name] for name in dict.fromkeys(subsets_of) if name in members]
        for group, subsets_of in groups.items()
    }
    categories = tuple(
        SubsetMetrics(name=group, metrics=_metrics(rows.at(np.concatenate(parts))))
        for group, parts in present.items()
        if parts
    )
    return subsets, categories


def _pass_at(rows: _Rows, n_repeats: int) -> dict[int, FloatArray]:
    """Return pass@k of each sample by k, NaN with fewer than k values; only k that a sample has values for."""
    counted = ~np.isnan(rows.value)
    n_counted = np.bincount(rows.sample, weights=counted).astype(np.int64)
    n_right = np.bincount(rows.sample, weights=rows.value == 1).astype(np.int64)
    powers = {2**power for power in range(n_repeats.bit_length()) if 2**power <= n_repeats}
    passed: dict[int, FloatArray] = {}
    for k in sorted(powers | {n_repeats}):
        enough = n_counted >= k
        if enough.any():
            passed[k] = np.full(len(enough), np.nan)
            passed[k][enough] = pass_at_k(n_counted[enough], n_right[enough], k)
    return passed


def _majority_values(rows: _Rows, repeat: IntArray, scores: pa.Table) -> FloatArray:
    """Return the value of the most frequent answer of each sample; NaN without a scored one."""
    answer, _ = _codes(scores, "extracted")
    counted = ~np.isnan(rows.value)
    unread = rows.kinds["unparsed"] | rows.kinds["unfinished"] | rows.kinds["timeout"]
    votes = np.flatnonzero(counted & ~unread & (answer >= 0))
    votes = votes[np.argsort(repeat[votes], kind="stable")]
    values = np.full(int(rows.sample.max(initial=-1)) + 1, np.nan)
    values[rows.sample[counted]] = 0.0
    winners = votes[majority(rows.sample[votes], answer[votes])]
    values[rows.sample[winners]] = rows.value[winners]
    return values


# Averages over several answers to each question, with the names that papers give them: avg@k, pass@k and maj@k.

_PASS_AT = re.compile(r"pass_at_(\d+)")

Average = tuple[str, float, float | None]
"""Name, value in [0, 1], and standard error (None if unknown)."""


def average_name(repeats: int) -> str:
    """Return the name of the accuracy over `repeats` answers per question, such as `avg@8`; "" for one answer."""
    return "" if repeats == 1 else f"avg@{repeats}"


def further_averages(metrics: Mapping[str, float | int | None], repeats: int) -> list[Average]:
    """Return pass@k for the largest k of a scoring, and the accuracy of the majority; nothing without repeats.

    Args:
        metrics: Scalars of a `Summary` by name; those of `Summary.averages` are used.
        repeats: Answers per question.
    """
    if repeats == 1:
        return []
    ks = [int(match[1]) for name in metrics if (match := _PASS_AT.fullmatch(name))]
    named = [
        (f"pass@{k}", f"pass_at_{k}", f"pass_at_{k}_stderr") for k in (max(ks, default=1),) if k > 1
    ]
    named.append((f"maj@{repeats}", "majority_accuracy", "majority_stderr"))
    return [
        (name, value, metrics.get(error))
        for name, key, error in named
        if (value := metrics.get(key)) is not None
    ]
