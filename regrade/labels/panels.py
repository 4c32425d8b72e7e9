"""People's labels of answers that several judges graded."""

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from regrade.answers.sets import AnswerSet
from regrade.judging.panel import Panel, PanelRow, name_of
from regrade.labels.calibrated import Calibrated, calibrated
from regrade.labels.items import Verdicts
from regrade.labels.scheme import scheme_of
from regrade.labels.stored import stored_labels
from regrade.rubrics.facts import judge_run
from regrade.stats.scale import SHARES, Scale


def scale_of(panel: Panel) -> Scale:
    """Return the scale of the values."""
    shares = (panel.low, panel.high) == (0.0, 1.0)
    return SHARES if shares else Scale(low=panel.low, high=panel.high, unit="")


def calibrated_panel(panel: Panel, judge_sets: Sequence[AnswerSet]) -> dict[str, Calibrated]:
    """Correct the mean of each judge of a panel, and of their combined values, by labels; by judge and by rule.

    Args:
        panel: The panel.
        judge_sets: Judge runs out of which it was made.

    Raises:
        DamagedAnswersError: If labels are damaged.
    """
    named = {name_of(judge_set): judge_set for judge_set in judge_sets}
    found = {}
    for name in (*panel.judges, panel.rule):
        answers = named[name if name in named else panel.judges[0]]
        values = {
            (row.sample_id, row.repeat): _drawn_as_mean(row)
            if name == panel.rule
            else row.values.get(name)
            for row in panel.rows
        }
        known = {key: value for key, value in values.items() if value is not None}
        verdicts = Verdicts(
            answers,
            judge_run(answers.manifest.specification),
            scheme_of(judge_run(answers.manifest.specification), scale_of(panel)),
            "",
            list(known),
            np.array(list(known.values()), np.float64),
        )
        labels = stored_labels(answers, verdicts.scheme.scale)
        found[name] = calibrated(verdicts, labels)
    return found


def _drawn_as_mean(row: PanelRow) -> float | None:
    """Return the combined value, in a draw the mean: without the draws, the rest would be corrected, and not all answers."""
    if row.combined is not None or not row.values:
        return row.combined
    return fmean(row.values.values())
