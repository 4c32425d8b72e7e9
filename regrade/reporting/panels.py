"""The tables of several judges of the same answers."""

from collections.abc import Iterator, Mapping
from typing import Any

from regrade.judging.panel import Panel
from regrade.labels.calibrated import Calibrated
from regrade.labels.panels import scale_of

COLUMNS = ("judge", "mean", "by people's labels", "answers")
AGREEMENT_COLUMNS = ("judges", "equal", "answers")


def panel_rows(panel: Panel, calibrations: Mapping[str, Calibrated]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each judge, then one for all.

    Args:
        panel: The panel.
        calibrations: Figures corrected by people's labels, by judge and by rule.
    """
    scale = scale_of(panel)
    for judge in panel.judges:
        values = [row.values[judge] for row in panel.rows if judge in row.values]
        mean = sum(values) / len(values) if values else None
        yield judge, scale.text(mean), calibrations[judge].text, f"{len(values):,}"
    drawn = len(panel.rows) - len(panel.values)
    many = ", too many for a mean" if panel.mean is None and panel.values else ""
    without = f" ({drawn:,} without a result{many})" if drawn else ""
    corrected = calibrations[panel.rule].text
    mean_text = scale.mean_text(panel.mean, panel.stderr)
    yield panel.rule, mean_text, corrected, f"{len(panel.values):,}{without}"


def agreement_rows(panel: Panel) -> Iterator[tuple[str, ...]]:
    """Yield a row for each two judges, then one for all."""
    for agreement in panel.agreements:
        yield " and ".join(agreement.judges), f"{agreement.equal:.1%}", f"{agreement.n:,}"
    if len(panel.judges) > 2:
        whole = sum(len(row.values) == len(panel.judges) for row in panel.rows)
        yield "all", "-" if panel.unanimous is None else f"{panel.unanimous:.1%}", f"{whole:,}"


def panel_json(panel: Panel, calibrations: Mapping[str, Calibrated]) -> dict[str, Any]:
    """Return the panel as JSON, with a row for each answer."""
    return {
        "judges": list(panel.judges),
        "rule": panel.rule,
        "mean": panel.mean,
        "stderr": panel.stderr,
        "calibrations": {
            name: {**found.model_dump(mode="json"), "text": found.text}
            for name, found in calibrations.items()
        },
        "unanimous": panel.unanimous,
        "agreement": [
            {"judges": list(a.judges), "equal": a.equal, "n": a.n} for a in panel.agreements
        ],
        "answers": [
            {
                "sample_id": row.sample_id,
                "repeat": row.repeat,
                "values": dict(row.values),
                "combined": row.combined,
            }
            for row in panel.rows
        ],
    }
