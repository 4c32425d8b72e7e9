"""The tables of several judges of the same answers."""

from collections.abc import Iterator
from typing import Any

from regrade.judging.panel import RULES, Panel
from regrade.judging.panel_result import PanelResult

COLUMNS = ("judge", "mean", "by people's labels", "answers")
AGREEMENT_COLUMNS = ("judges", "equal", "answers")


def panel_rows(panel: PanelResult) -> Iterator[tuple[str, ...]]:
    """Yield a row for each judge, then one for all by each rule."""
    scale = panel.scale
    for judge in panel.judges:
        yield judge.judge, scale.text(judge.mean), judge.calibrated.text, f"{judge.n:,}"
    for combined in panel.combined:
        drawn = panel.answers - combined.n
        many = ", too many for a mean" if combined.mean is None and combined.n else ""
        without = f" ({drawn:,} without a result{many})" if drawn else ""
        mean = scale.mean_text(combined.mean, combined.stderr)
        yield combined.rule, mean, combined.calibrated.text, f"{combined.n:,}{without}"


def agreement_rows(panel: PanelResult) -> Iterator[tuple[str, ...]]:
    """Yield a row for each two judges, then one for all."""
    for agreement in panel.agreement:
        yield " and ".join(agreement.judges), f"{agreement.equal:.1%}", f"{agreement.n:,}"
    if len(panel.judges) > 2:
        equal = "-" if panel.unanimous is None else f"{panel.unanimous:.1%}"
        yield "all", equal, f"{panel.unanimous_n:,}"


def answers_json(panel: Panel) -> list[dict[str, Any]]:
    """Return a row for each answer, with the value of each judge and by each rule."""
    return [
        {
            "sample_id": row.sample_id,
            "repeat": row.repeat,
            "values": dict(row.values),
            **{rule: row.combined(rule) for rule in RULES},
        }
        for row in panel.rows
    ]
