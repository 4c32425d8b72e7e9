"""Signs of bias in a judge run: length of the judged answers, order of the pairs, and judges that grade their relatives."""

import numpy as np
import pyarrow as pa
from pydantic import Field

from regrade.answers.result import Result
from regrade.answers.rows import row_keys
from regrade.answers.sets import AnswerSet
from regrade.judging.labels.items import clusters_of, judged_key, values_by_answer
from regrade.judging.readings import judged_answers
from regrade.records.rubrics.facts import JudgeRun, judge_run
from regrade.records.rubrics.family import family_warning
from regrade.settings import StrictModel
from regrade.settings.errors import DamagedAnswersError, RepositoryError, SettingsError
from regrade.stats.bias import (
    ControlledWins,
    LengthBias,
    OrderBias,
    controlled_wins,
    length_bias,
    order_bias,
    style_of,
)
from regrade.stats.metrics import score_values
from regrade.stats.named import row_metrics


class Bias(StrictModel):
    """Signs of bias in a judge run."""

    family: str | None = None
    """A sentence if judge and candidate are relatives."""
    length: LengthBias | None = None
    """None for pairs and for a self-test, and if the judged answers cannot be read."""
    order: OrderBias | None = None
    """None unless pairs were judged."""
    controlled: ControlledWins | None = Field(None, exclude_if=lambda wins: wins is None)
    """Wins of pairs with length and style held equal; None without pairs, and if the answers cannot be read."""
    reason: str = ""
    """Reason why lengths are unknown."""

    @property
    def figures(self) -> dict[str, float]:
        """Numbers by name, for MLflow."""
        named: dict[str, float | None] = {}
        if self.length is not None:
            named["bias/length_spearman"] = self.length.spearman.value
            for number, quarter in enumerate(self.length.quarters, start=1):
                named[f"bias/length_quarter_{number}"] = quarter.mean
        if self.order is not None:
            named["bias/prefers_first"] = self.order.prefers_first.value
            named["bias/inconsistent"] = self.order.inconsistent
        if self.controlled is not None:
            for name in ("length", "style"):
                wins = getattr(self.controlled, name)
                named[f"bias/{name}_controlled"] = None if wins is None else wins.value
        return {name: value for name, value in named.items() if value is not None}


def bias_of(scored: Result) -> Bias | None:
    """Return signs of bias in a scoring of a judge run; None for other answers."""
    answers, specification = scored.answers, scored.answers.manifest.specification
    run = judge_run(specification)
    if run is None:
        return None
    table = scored.scores
    family = family_warning(specification)
    order = _order(table) if run.rubric.kind == "pairwise" else None
    try:
        if run.rubric.kind == "pairwise":
            return Bias(family=family, order=order, controlled=_controlled(answers, run, table))
        length = None if run.judged is None else _length(answers, run, table)
        return Bias(family=family, length=length)
    except (SettingsError, RepositoryError, DamagedAnswersError) as error:
        return Bias(family=family, order=order, reason=str(error))


def _length(answers: AnswerSet, run: JudgeRun, table: pa.Table) -> LengthBias | None:
    judged = judged_answers(answers)
    values, lengths, keys = [], [], []
    for key, value in zip(row_keys(table), score_values(table).tolist(), strict=True):
        given = judged.get(judged_key(run, key))
        if given is not None and np.isfinite(value):
            values.append(value)
            lengths.append(len(given.answer))
            keys.append(key)
    return length_bias(np.array(values), np.array(lengths, np.int64), clusters_of(keys))


def _controlled(answers: AnswerSet, run: JudgeRun, table: pa.Table) -> ControlledWins | None:
    candidate, baseline = judged_answers(answers), judged_answers(answers, side="baseline")
    known = values_by_answer(run, table).items()
    given = {key: v for key, v in known if v and key in candidate and key in baseline}
    if not given:
        return None
    return controlled_wins(
        np.array([float(np.mean(values)) for values in given.values()]),
        np.array([style_of(candidate[key].answer) for key in given], np.int64),
        np.array([style_of(baseline[key].answer) for key in given], np.int64),
        clusters_of(list(given)),
    )


def _order(table: pa.Table) -> OrderBias | None:
    first, inconsistent, keys = [], [], []
    for key, text in zip(row_keys(table), table["metrics"].to_pylist(), strict=True):
        metrics = row_metrics(text)
        if "prefers_first" in metrics:
            first.append(metrics["prefers_first"])
            inconsistent.append(metrics.get("inconsistent", np.nan))
            keys.append(key)
    return order_bias(np.array(first), np.array(inconsistent), clusters_of(keys))
