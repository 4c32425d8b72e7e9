"""A verdict as people read it: a page of markdown that nothing breaks out of."""

from regrade.gating.report import GateReport
from regrade.report import escape


def gate_markdown(report: GateReport) -> str:
    """Return the verdict as a page of markdown."""
    return f"# {report.verdict}\n\n{escape(report.summary)}\n"
