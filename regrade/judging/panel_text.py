"""The tables of several judges of the same answers."""

from typing import Any

from regrade.judging.panel import RULES, Panel
from regrade.judging.panel_result import PanelResult
from regrade.stats.scale import percent
from regrade.text.blocks import Table


def blocks(panel: PanelResult) -> tuple[Table, Table]:
    """Return the judges' means, alone and combined, and their agreement."""
    return judge_table(panel), agreement_table(panel)


def judge_table(panel: PanelResult) -> Table:
    """Return a row for each judge, then one for all by each rule."""
    scale = panel.scale
    rows = [
        (judge.judge, scale.text(judge.mean), judge.calibrated.text, f"{judge.n:,}")
        for judge in panel.judges
    ]
    for combined in panel.combined:
        counts = {
            "without a result": panel.answers - combined.n,
            "with nothing to judge": panel.nothing_to_judge,
        }
        told = [f"{count:,} {what}" for what, count in counts.items() if count]
        if told and combined.mean is None and combined.n:
            told.append("too many for a mean")
        without = f" ({', '.join(told)})" if told else ""
        mean = scale.mean_text(combined.mean, combined.stderr)
        rows.append((combined.rule, mean, combined.calibrated.text, f"{combined.n:,}{without}"))
    return Table(("judge", "mean", "by people's labels", "answers"), rows)


def agreement_table(panel: PanelResult) -> Table:
    """Return a row for each two judges, then one for all."""
    rows = [
        (" and ".join(agreement.judges), percent(agreement.equal), f"{agreement.n:,}")
        for agreement in panel.agreement
    ]
    if len(panel.judges) > 2:
        equal = "-" if panel.unanimous is None else percent(panel.unanimous)
        rows.append(("all", equal, f"{panel.unanimous_n:,}"))
    return Table(("judges", "equal", "answers"), rows)


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
