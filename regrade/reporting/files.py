"""Where a verdict goes: files for CI, the page of a GitHub job, and tags on the candidate's runs in MLflow."""

import os
from pathlib import Path

from regrade.comparing.gate_report import GateReport
from regrade.errors import SettingsError
from regrade.reporting.junit import junit
from regrade.reporting.verdicts import gate_markdown
from regrade.tracking.labels import tag_answer_sets

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"


def write_reports(
    report: GateReport,
    *,
    markdown: Path | None = None,
    junit_xml: Path | None = None,
    json: Path | None = None,
) -> None:
    """Write the files that were asked for, and add the page to that of a GitHub job if this is one.

    Raises:
        SettingsError: If a file cannot be written.
    """
    page = gate_markdown(report)
    contents = (
        (markdown, page),
        (junit_xml, junit(report)),
        (json, report.model_dump_json(indent=2) + "\n"),
    )
    for path, content in contents:
        if path is not None:
            _write(path, content, append=False)
    if summary := os.environ.get(STEP_SUMMARY):
        _write(Path(summary), page + "\n", append=True)


def tag_candidate(uri: str, report: GateReport) -> int:
    """Tag the runs of the candidate in MLflow, and return how many scorings there were.

    `regrade.gate` is the verdict, `regrade.gate.reason` and `regrade.gate.baseline` say why and against what.

    Raises:
        TrackingError: If MLflow cannot be reached or does not take the tags.
    """
    tags = {
        one.comparison.candidate.answer_set_id: {
            "regrade.gate": one.verdict,
            "regrade.gate.reason": one.reason,
            "regrade.gate.baseline": one.comparison.base.answer_set_id,
        }
        for one in report.benchmarks
        if one.comparison is not None
    }
    overall = {
        "regrade.gate": report.verdict,
        "regrade.gate.reason": report.summary,
        "regrade.gate.baseline": report.base,
    }
    return tag_answer_sets(uri, tags, overall) if tags else 0


def write_page(path: Path, content: str) -> None:
    """Write a text file, with the folders above it.

    Raises:
        SettingsError: If it cannot be written.
    """
    _write(path, content, append=False)


def _write(path: Path, content: str, *, append: bool) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a" if append else "w", encoding="utf-8", errors="replace") as file:
            file.write(content)
    except OSError as error:
        raise SettingsError(f"'{path}' cannot be written: {error.strerror}.") from error
