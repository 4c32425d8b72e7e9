"""Labels that people may give to an answer, with their values."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from regrade.records.rubrics.facts import JudgeRun
from regrade.scorers import JUDGE
from regrade.settings.errors import SettingsError
from regrade.stats.agreement import Level
from regrade.stats.estimates import FloatArray, IntArray
from regrade.stats.scale import SHARES, Scale

RIGHT, WRONG = "right", "wrong"
CANDIDATE, BASELINE, TIE = "candidate", "baseline", "tie"


@dataclass(frozen=True, slots=True)
class Scheme:
    """Labels of a scoring."""

    labels: Mapping[str, float]
    """Value of each label, from worst to best; empty if people give a number."""
    scale: Scale = SHARES
    words: Mapping[str, str] = field(default_factory=dict)
    """Other words, in lower case, that people may write, with their labels."""

    @property
    def grades(self) -> dict[float, str]:
        """Values in ascending order with their labels, such as `B or C` for two labels of one value; empty for numbers."""
        values = sorted(set(self.labels.values()))
        return {
            value: " or ".join(label for label, number in self.labels.items() if number == value)
            for value in values
        }

    @property
    def level(self) -> Level:
        """Kind of the grades."""
        return "ordinal" if len(self.grades) > 2 else "nominal"

    def grade(self, values: FloatArray) -> IntArray:
        """Return the position of each value among the grades; -1 for values between grades and for NaN."""
        grades = np.array(list(self.grades), np.float64)
        if not len(grades):
            return np.full(len(values), -1, np.int64)
        equal = np.isclose(values[:, None], grades[None, :])
        return np.where(equal.any(axis=1), equal.argmax(axis=1), -1).astype(np.int64)

    @property
    def binary(self) -> bool:
        """All values are 0 or 1."""
        return bool(self.labels) and set(self.labels.values()) <= {0.0, 1.0}

    def read(self, text: str) -> tuple[str, float]:
        """Return the stored form of a label, and its value; case does not matter.

        Raises:
            SettingsError: If it is not one of the labels.
        """
        given = " ".join(text.split())
        if not self.labels:
            return self._number(given)
        known = {label.lower(): label for label in self.labels}
        label = known.get(given.lower()) or self.words.get(given.lower())
        if label is None:
            raise SettingsError(
                f"'{given[:80]}' is no label here: expected {expected(tuple(self.labels), self.scale, self.words)}."
            )
        return label, self.labels[label]

    def _number(self, given: str) -> tuple[str, float]:
        try:
            value = float(given)
        except ValueError:
            value = math.nan
        if not self.scale.low <= value <= self.scale.high:
            raise SettingsError(
                f"'{given[:80]}' is no label here: expected {expected(tuple(self.labels), self.scale)}."
            )
        return str(value).removesuffix(".0"), value


def expected(labels: Sequence[str], scale: Scale, words: Mapping[str, str] | None = None) -> str:
    """Return the accepted labels, each with its meaning if the rubric has a word for it.

    Args:
        labels: Labels; without any, numbers of the scale are accepted.
        scale: The scale.
        words: Label by word.
    """
    if not labels:
        return f"a number from {scale.low:g} to {scale.high:g}"
    meaning: dict[str, str] = {}
    for word, label in (words or {}).items():
        meaning.setdefault(label, f" ({word})")
    return " or ".join(f"'{label}'{meaning.get(label, '')}" for label in labels)


def further_fields(run: JudgeRun | None, scorer: str) -> tuple[str, ...]:
    """Return the names of a verdict's fields after the first, which gives the headline number.

    Args:
        run: Facts of the judge run; None for answers that no judge graded.
        scorer: Name of the scorer; only the scorer of judges gives several values.
    """
    if run is None or run.rubric.kind != "verdict" or scorer != JUDGE:
        return ()
    return tuple(field.name for field in run.rubric.fields[1:])


def scheme_of(run: JudgeRun | None, scale: Scale = SHARES, field: str | None = None) -> Scheme:
    """Return the labels of a judge run's rubric; right and wrong for any other scoring of shares, else numbers.

    Args:
        run: Facts of the judge run; None for answers that no judge graded.
        scale: Scale of the scoring.
        field: One of the `further_fields`. None: the first field of the verdict.
    """
    if run is None and scale != SHARES:
        return Scheme({}, scale)
    if run is None:
        return Scheme({WRONG: 0.0, RIGHT: 1.0})
    if run.rubric.kind == "criteria":
        return Scheme({}, scale)
    if run.rubric.kind == "pairwise":
        return Scheme({BASELINE: 0.0, TIE: 0.5, CANDIDATE: 1.0})
    chosen = next(facts for facts in run.rubric.fields if field in (None, facts.name))
    if chosen.range is not None:
        low, high = chosen.range
        return Scheme({}, SHARES if (low, high) == (0, 1) else Scale(low=low, high=high, unit=""))
    ordered = sorted(chosen.values.items(), key=lambda item: item[1])
    low, high = ordered[0][1], ordered[-1][1]
    if field is not None:
        scale = SHARES if low >= 0 and high <= 1 else Scale(low=low, high=high, unit="")
    return Scheme(dict(ordered), scale, chosen.words)
