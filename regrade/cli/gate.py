"""`regrade gate`."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from pydantic import ValidationError

from regrade.cli.compare import Allow
from regrade.cli.options import Answers, Json, TrackingUri
from regrade.cli.output import new_table
from regrade.cli.tagging import tag_runs
from regrade.cli.terminal import plain, stdout
from regrade.comparing.gate import gate as judge
from regrade.comparing.gate_report import GateReport
from regrade.errors import SettingsError
from regrade.job import default_answers, one_line
from regrade.reporting.files import tag_candidate, write_reports
from regrade.reporting.verdicts import COLUMNS, verdict_row
from regrade.settings import GateSettings

STYLES = {"pass": "green", "regression": "red", "cannot tell": "yellow"}


def gate(
    candidate: str,
    *,
    baseline: str = "baseline",
    max_drop: float = 1.0,
    benchmark: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    max_unparsed: float | None = None,
    max_truncated: float | None = None,
    min_coverage: float | None = None,
    allow: Allow = (),
    error_rate: float = 5.0,
    answers: Answers = None,
    base_answers: str | None = None,
    examples: int = 3,
    markdown: Path | None = None,
    junit: Path | None = None,
    report: Path | None = None,
    tracking_uri: TrackingUri = None,
    json: Json = False,
) -> None:
    """Say whether a candidate is worse than a baseline: exit code 0 pass, 1 regression, 2 cannot tell, 3 or more no verdict.

    Args:
        candidate: Answer set id, model or alias.
        baseline: Answer set id, model or alias (`regrade promote` moves the alias `baseline`).
        max_drop: Drop of accuracy that is accepted, in percentage points.
        benchmark: `NAME=POINTS`: another accepted drop for this benchmark. `NAME`: only this benchmark.
        max_unparsed: Percent of the candidate's answers in which nothing could be read.
        max_truncated: Percent of the candidate's answers that were cut off.
        min_coverage: Percent of the questions that have to be compared; 90 if not given.
        allow: A difference that is meant.
        error_rate: Percent: how often a model that is not worse may be called one, and one that is worse may pass.
        answers: Answer repository.
        base_answers: Answer repository of the baseline, if it is another one.
        examples: Examples of what flipped to keep, of each kind.
        markdown: File for the verdict as a page; it is also added to the page of a GitHub job.
        junit: File for the verdict as JUnit XML.
        report: File for the verdict as JSON.
        tracking_uri: MLflow server or database, where the candidate's runs are tagged.
        json: Print JSON.
    """
    if examples < 0:
        raise SettingsError(f"`--examples {examples}` should be 0 or more.")
    try:
        settings = GateSettings(
            baseline=baseline,
            max_drop=max_drop,
            max_drop_of=tuple(one for one in benchmark if "=" in one),
            max_unparsed=max_unparsed,
            max_truncated=max_truncated,
            min_coverage=min_coverage,
            allow=allow,
            error_rate=error_rate,
            base_answers=base_answers,
        )
    except ValidationError as error:
        raise SettingsError(one_line(error)) from error
    only = tuple(one for one in benchmark if "=" not in one)
    where = answers or default_answers()
    found = judge(candidate, settings, answers=where, benchmarks=only, examples=examples)
    write_reports(found, markdown=markdown, junit_xml=junit, json=report)
    if json:
        sys.stdout.write(found.model_dump_json(indent=2) + "\n")
    else:
        print_verdict(found)
    tag_runs(tracking_uri, where, lambda uri: tag_candidate(uri, found))
    raise SystemExit(found.exit_code)


def print_verdict(report: GateReport) -> None:
    """Print the table and the reasons."""
    table = new_table(*COLUMNS)
    for one in report.benchmarks:
        table.add_row(*(plain(cell) for cell in verdict_row(one)))
    stdout.print(table)
    for one in report.benchmarks:
        stdout.print(
            f"[{STYLES[one.verdict]}]{one.verdict}[/] {plain(one.benchmark)}: {plain(one.reason)}"
        )
        if one.comparison is not None:
            for note in (*one.comparison.allowed, *one.comparison.notes):
                stdout.print(f"  {plain(note)}")
    for note in report.notes:
        stdout.print(plain(note))
    stdout.print(f"[bold {STYLES[report.verdict]}]{report.verdict}[/]")
