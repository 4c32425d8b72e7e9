"""People's labels of answers that several judges graded."""

from collections.abc import Sequence

import numpy as np

from regrade.answers.sets import AnswerSet
from regrade.judging.labels.calibrated import Calibrated, calibrated
from regrade.judging.labels.items import Verdicts
from regrade.judging.labels.scheme import scheme_of
from regrade.judging.labels.stored import stored_labels
from regrade.judging.panel import RULES, Panel, PanelRow, name_of
from regrade.stats.scale import SHARES, Scale


def scale_of(panel: Panel) -> Scale:
    """Return the scale of the values."""
    low, high = panel.run.rubric.low, panel.run.rubric.high
    return SHARES if (low, high) == (0.0, 1.0) else Scale(low=low, high=high, unit="")


def calibrated_panel(panel: Panel, judge_sets: Sequence[AnswerSet]) -> dict[str, Calibrated]:
    """Return the calibration of each judge of a panel, and of its values by each rule.

    Args:
        panel: The panel.
        judge_sets: Its judge runs.

    Raises:
        DamagedAnswersError: If labels are damaged.
    """
    named = {name_of(judge_set): judge_set for judge_set in judge_sets}
    scheme = scheme_of(panel.run, scale_of(panel))
    found = {}
    for name in (*panel.judges, *RULES):
        answers = named[name if name in named else panel.judges[0]]
        values = {(row.sample_id, row.repeat): _value(row, name) for row in panel.rows}
        known = {key: value for key, value in values.items() if value is not None}
        value = np.array([*known.values()], np.float64)
        without = [key for key in values if key not in known]
        verdicts = Verdicts(answers, panel.run, scheme, "", None, [*known], value, without)
        found[name] = calibrated(verdicts, stored_labels(answers, scheme.scale))
    return found


def _value(row: PanelRow, name: str) -> float | None:
    """Return the value of a judge, or by a rule.

    A draw has the mean, because without draws only the rest would be corrected.
    """
    if name not in RULES:
        return row.values.get(name)
    combined = row.combined(name)
    return row.combined("mean") if combined is None else combined
