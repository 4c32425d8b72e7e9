"""A scoring compared with people's labels: agreement, and the figure that the labels correct."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field

from regrade.judging.labels.items import Verdicts, clusters_of
from regrade.judging.labels.sampling import random_part
from regrade.judging.labels.stored import StoredLabels
from regrade.settings import StrictModel
from regrade.stats.agreement import Agreement, agreement, alpha_of
from regrade.stats.corrected import (
    MIN_LABELLED,
    Calibration,
    LabelledVerdicts,
    corrected_mean,
    rogan_gladen,
)
from regrade.stats.estimates import FloatArray
from regrade.stats.resampling import Estimate
from regrade.stats.scale import SHARES, Scale
from regrade.text.text import counted

Method = Literal["PPI++", "Rogan-Gladen"]
UNCALIBRATED = "uncalibrated"


class Calibrated(StrictModel):
    """A scoring's figure corrected by people's labels; without a method it is uncalibrated."""

    method: Method | None = None
    scale: Scale = SHARES
    value: float | None = None
    """Corrected mean, in the unit of the scoring, with its 95 % interval."""
    low: float | None = None
    high: float | None = None
    labelled: int = 0
    """Labelled answers behind it."""
    raters: int = 0
    agreement: Agreement | None = None
    """Verdicts (rows of the table) against people: with several people, against the mean of their labels if it is a
    label."""
    people: Estimate | None = None
    """Krippendorff's alpha of the people among themselves; None for one person, or if people give numbers."""
    sensitivity: float | None = None
    """Share of the answers that people call right which the scoring calls right, too; None unless labels are right or
    wrong."""
    specificity: float | None = None
    reason: str = ""
    """Reason if nothing is corrected, or a remark on the labels."""
    fields: "dict[str, Calibrated]" = Field(default_factory=dict)
    """Further fields of the verdicts by name, such as `style`; each has labels of its own."""

    def with_fields(self, fields: "Mapping[str, Calibrated]") -> "Calibrated":
        """Return a copy with further fields of the verdicts."""
        return self.model_copy(update={"fields": dict(fields)})

    @property
    def figures(self) -> dict[str, float]:
        """Corrected mean and the ends of its interval, by name; empty if uncalibrated."""
        named = {"corrected": self.value, "corrected_low": self.low, "corrected_high": self.high}
        for field, found in self.fields.items():
            named |= {f"{name}/{field}": value for name, value in found.figures.items()}
        return {name: value for name, value in named.items() if value is not None}

    @property
    def text(self) -> str:
        """Corrected figure with interval and method, or `uncalibrated`."""
        if self.method is None:
            return UNCALIBRATED
        interval = self.scale.interval_text(self.low, self.high)
        return (
            f"{self.scale.text(self.value)}, {interval} ({self.method}, {self.labelled:,} labels)"
        )


Labelled = tuple[Verdicts, StoredLabels]


def calibrated(
    verdicts: Verdicts, labels: StoredLabels, elsewhere: Iterable[Labelled] = ()
) -> Calibrated:
    """Correct the mean of verdicts by labels.

    Labels of a random part of the answers give the prediction-powered mean. Without them, labels of other answers under the
    same rubric and judge give Rogan and Gladen's correction, if the verdicts are right or wrong.

    Args:
        verdicts: Verdicts of a scoring.
        labels: Labels of its answers.
        elsewhere: Verdicts of the same judge and rubric on other answers, with their labels; read only if they are needed.
    """
    compared = _compared(verdicts, labels)
    random = labelled_verdicts(verdicts, labels)
    corrected = corrected_mean(random)
    if corrected is not None:
        ends = (corrected.value, *corrected.interval())
        value, low, high = (_within(verdicts.scheme.scale, end) for end in ends)
        n = corrected.labelled
        unused = len(labels.keys) - n
        further = f"not used: {counted(unused, 'label')} outside the random part" if unused else ""
        reason = "; ".join(filter(None, (further, _widened(random), _outdated(labels))))
        return compared.model_copy(
            update={
                "method": "PPI++",
                "value": value,
                "low": low,
                "high": high,
                "labelled": n,
                "reason": reason,
            }
        )
    if not verdicts.scheme.binary or not np.isin(verdicts.value, (0.0, 1.0)).all():
        return compared.model_copy(update={"reason": why_not(labels, compared.labelled)})
    found = _by_errors(verdicts, [(verdicts, labels), *elsewhere])
    if "method" not in found and labels.outdated:
        found["reason"] = _outdated(labels)
    return compared.model_copy(update=found)


def labelled_verdicts(verdicts: Verdicts, labels: StoredLabels) -> LabelledVerdicts:
    """Return all answers, in the order of `verdicts.judged`, with the labels of a random part of them; without labels if no part is random.

    Answers without a verdict count with the mean verdict, which the labels correct as any other. Of a sample that was drawn
    from some of the answers, such as those with a verdict of another judge, or before others were added, the rest is not
    known, and widens the interval.
    """
    keys = verdicts.judged
    values, known = labels.values(keys), labels.keys
    drawn = {(sample.seed, sample.population) for sample in labels.samples}
    chosen: list[int] = []
    share = 1.0
    for seed, population in sorted(drawn) or [(0, len(keys))]:
        sampled = min(1.0, population / max(1, len(keys)))
        part = random_part(keys, known, seed, sampled)
        if len(part) * sampled > len(chosen) * share or not chosen:
            chosen, share = part, sampled
    random: FloatArray = np.full(len(keys), np.nan)
    random[chosen] = values[chosen]
    scale = verdicts.scheme.scale
    mean = verdicts.value.mean() if len(verdicts.value) else scale.low
    verdict = np.append(verdicts.value, np.full(len(verdicts.without), mean))
    return LabelledVerdicts(verdict, random, clusters_of(keys), scale.low, scale.high, 1 - share)


def _widened(answers: LabelledVerdicts) -> str:
    """Return a remark on answers from which no sample was drawn."""
    n = round(answers.unsampled * len(answers.verdict))
    if not n:
        return ""
    return (
        f"the labels are a sample without {n:,} of the {len(answers.verdict):,} answers, such as those without a verdict or added "
        "later: the interval holds whatever these are. A new sample is drawn from all"
    )


def _compared(verdicts: Verdicts, labels: StoredLabels) -> Calibrated:
    """Return the agreement of verdicts and people, without a corrected figure."""
    scheme = verdicts.scheme
    known = labels.values(verdicts.keys)
    found: dict[str, Any] = {
        "scale": scheme.scale,
        "labelled": int((~np.isnan(known)).sum()),
        "raters": len(labels.raters),
    }
    if not scheme.grades:
        return Calibrated(**found)
    names = tuple(scheme.grades.values())
    people, judge = scheme.grade(known), scheme.grade(verdicts.value)
    found["agreement"] = agreement(judge, people, verdicts.cluster, names, scheme.level)
    if scheme.binary:
        errors = _errors([(verdicts, labels)])
        found |= {"sensitivity": errors.sensitivity, "specificity": errors.specificity}
    if len(labels.raters) > 1:
        by_rater = [scheme.grade(labels.values(verdicts.keys, rater)) for rater in labels.raters]
        counts = sum(np.eye(len(names) + 1, dtype=np.int64)[grades] for grades in by_rater)
        found["people"] = alpha_of(np.asarray(counts)[:, :-1], verdicts.cluster, scheme.level)
    return Calibrated(**found)


def why_not(labels: StoredLabels, labelled: int = 0) -> str:
    """Return the reason why answers are uncalibrated, of which so many have a label that counts."""
    return _outdated(labels) or _too_few(labelled)


def _outdated(labels: StoredLabels) -> str:
    if not labels.outdated:
        return ""
    return (
        f"not used: {counted(labels.outdated, 'label')} of answers that were generated again since"
    )


def _by_errors(verdicts: Verdicts, labelled: Sequence[Labelled]) -> dict[str, Any]:
    """Return the fields of Rogan and Gladen's correction, or the reason why nothing is corrected."""
    errors = _errors(labelled)
    n = errors.right + errors.wrong
    if n < MIN_LABELLED or not errors.right or not errors.wrong:
        return {"reason": _too_few(n)}
    corrected = rogan_gladen(verdicts.value, verdicts.cluster, errors)
    if corrected is None:
        return {"reason": f"on {n:,} labelled answers the verdicts are no better than chance"}
    value, low, high = corrected
    without = len(verdicts.without) / len(verdicts.judged)
    runs = [of.run for of, labels in labelled if labels.latest]
    whose = sorted({run.judged.model for run in runs if run is not None and run.judged is not None})
    reason = f"the labels are of answers of {', '.join(whose)} to the same benchmark, and no random part of these answers: this holds if the judge errs here as often as there"
    if without:
        reason += f"; the interval holds whatever the {len(verdicts.without):,} answers without a verdict are"
    return {
        "method": "Rogan-Gladen",
        "value": value,
        "low": low * (1 - without),
        "high": high * (1 - without) + without,
        "labelled": n,
        "sensitivity": errors.sensitivity,
        "specificity": errors.specificity,
        "reason": reason,
    }


def _errors(labelled: Iterable[Labelled]) -> Calibration:
    """Return the counts of right and wrong verdicts; answers on which people are divided are left out."""
    counts = np.zeros(4, np.int64)
    for verdicts, labels in labelled:
        known = labels.values(verdicts.keys)
        right, wrong = known > 0.5, known < 0.5
        found = verdicts.value
        counts += [
            right.sum(),
            (right & (found == 1)).sum(),
            wrong.sum(),
            (wrong & (found == 0)).sum(),
        ]
    return Calibration(*(int(count) for count in counts))


def _too_few(labelled: int) -> str:
    if not labelled:
        return "nobody has labelled these answers: `regrade label` draws a sample"
    return f"{counted(labelled, 'label')}: too few, or no random part of these answers; `regrade label --sample` draws one"


def _within(scale: Scale, value: float) -> float:
    return min(scale.high, max(scale.low, value))
