"""`regrade gate`."""

from pathlib import Path
from typing import TYPE_CHECKING

from regrade.cli.checking import checked_job
from regrade.cli.job_options import JobOptions, options_for
from regrade.cli.output import (
    TABLE,
    Output,
    begin_reports,
    json_text,
    reported_on_failure,
    tag_runs,
)
from regrade.cli.terminal import print_blocks, show_logs
from regrade.comparing.gate_report import tag_candidate
from regrade.comparing.job import GateJob
from regrade.comparing.junit import junit as junit_xml
from regrade.comparing.verdict_text import blocks
from regrade.settings.errors import SettingsError
from regrade.text.files import write_reports
from regrade.text.markdown import escape
from regrade.text.markdown import markdown as as_markdown

if TYPE_CHECKING:
    GateOptions = JobOptions
else:
    GateOptions = options_for(GateJob)


def gate(
    candidate: str,
    *,
    options: GateOptions | None = None,
    markdown: Path | None = None,
    junit: Path | None = None,
    report: Path | None = None,
    html: Path | None = None,
    output: Output = TABLE,
) -> None:
    """Judge a candidate against the baseline: exit code 0 pass, 1 regression, 2 cannot tell.

    Args:
        candidate: Answer set id, model or alias.
        markdown: File for the verdict as markdown, which a GitHub job also shows in its summary.
        junit: File for the verdict as JUnit XML.
        report: File for the verdict as JSON.
        html: File for a report to hand on, as `regrade report` writes it.
    """
    options = options or GateOptions()
    job = checked_job(GateJob, {**options.parameters(), "candidate": candidate}, options.config)
    if old := [text for text in job.benchmarks if "=" in text]:
        raise SettingsError(
            f"`--benchmark {old[0]}`: another drop for one benchmark is `--max-drop-of {old[0]}`."
        )
    begin_reports("gate", markdown, report, html, junit=junit)
    if html is not None:
        html.unlink()
    show_logs("regrade.gate", quiet=output.quiet)  # what the questions can show
    with reported_on_failure("gate", _no_verdict, markdown=markdown, junit=junit):
        judged = job.verdict()
    page = as_markdown(blocks(judged))
    write_reports(page, (markdown, page), (junit, junit_xml(judged)), (report, json_text(judged)))
    output.show(judged, lambda: print_blocks(blocks(judged)))
    if html is not None:
        from regrade.pages.report.of_verdict import write_verdict_report  # noqa: PLC0415 - slow imports

        show_logs("regrade.report", quiet=True)
        write_verdict_report(html, judged)
    tag_runs(job.tracking_uri, job.answers, lambda mlflow: tag_candidate(mlflow, judged))
    raise SystemExit(judged.exit_code)


def _no_verdict(problem: str) -> str:
    return f"# regrade gate: no verdict\n\n{escape(problem)}\n"
