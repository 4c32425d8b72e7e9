"""Results of several judges of the same answers, as `--json` prints them."""

from collections.abc import Mapping

from regrade.judging.labels.calibrated import Calibrated
from regrade.judging.labels.panels import scale_of
from regrade.judging.panel import RULES, JudgesAgree, Panel, Rule
from regrade.settings import StrictModel
from regrade.stats.scale import Scale


class JudgeFigure(StrictModel):
    """One judge of a panel."""

    judge: str
    """Name and revision."""
    mean: float | None
    n: int
    """Answers on which it has a verdict."""
    calibrated: Calibrated


class CombinedFigure(StrictModel):
    """The verdicts of all judges, combined by a rule."""

    rule: Rule
    mean: float | None
    """None if too few answers have a combined value."""
    stderr: float | None
    n: int
    """Answers with a combined value."""
    calibrated: Calibrated


class PanelResult(StrictModel):
    """Several judges of the same answers, by the same rubric."""

    answer_set_id: str
    """Id of the judged answers."""
    benchmark: str
    model: str
    """Model whose answers are judged."""
    rubric: str
    rubric_sha256: str
    baseline: str | None
    """Id of the other side's answers, for pairs."""
    criteria: str | None
    """sha256 over the criteria of all questions, for a rubric with criteria."""
    scale: Scale
    answers: int
    """Answers that a judge could be asked about."""
    nothing_to_judge: int = 0
    """The other answers, such as failed requests; they are part of no figure."""
    judges: tuple[JudgeFigure, ...]
    combined: tuple[CombinedFigure, ...]
    """One for each rule."""
    unanimous: float | None
    """Share of the answers with a verdict of all judges on which all have the same value."""
    unanimous_n: int
    """Answers with a verdict of all judges."""
    agreement: tuple[JudgesAgree, ...]
    mlflow_run_id: str | None = None

    @property
    def title(self) -> str:
        """Rubric, benchmark and model on one line."""
        return f"{self.rubric} on {self.benchmark} by {self.model}"


def panel_result(panel: Panel, calibrations: Mapping[str, Calibrated]) -> PanelResult:
    """Return the result of a panel on stored answers.

    Args:
        panel: The panel.
        calibrations: Figures corrected by people's labels, by judge and by rule.
    """
    judged, rubric = panel.run.judged, panel.run.rubric
    assert judged is not None  # noqa: S101 - the answers of a self-test have no panel
    return PanelResult(
        answer_set_id=judged.answer_set_id,
        benchmark=judged.benchmark,
        model=judged.model,
        rubric=rubric.name,
        rubric_sha256=rubric.sha256,
        baseline=None if panel.run.baseline is None else panel.run.baseline.answer_set_id,
        criteria=panel.run.criteria,
        scale=scale_of(panel),
        answers=len(panel.rows),
        nothing_to_judge=panel.nothing_to_judge,
        judges=tuple(_judge(panel, name, calibrations[name]) for name in panel.judges),
        combined=tuple(
            CombinedFigure(
                rule=rule,
                mean=panel.mean(rule),
                stderr=panel.stderr(rule),
                n=len(panel.values(rule)),
                calibrated=calibrations[rule],
            )
            for rule in RULES
        ),
        unanimous=panel.unanimous,
        unanimous_n=panel.whole,
        agreement=panel.agreements,
    )


def _judge(panel: Panel, name: str, calibrated: Calibrated) -> JudgeFigure:
    values = [row.values[name] for row in panel.rows if name in row.values]
    mean = sum(values) / len(values) if values else None
    return JudgeFigure(judge=name, mean=mean, n=len(values), calibrated=calibrated)
