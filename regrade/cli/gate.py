"""`regrade gate`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from pydantic import ValidationError

from regrade.cli.checking import option_problems
from regrade.cli.options import (
    Allow,
    Answers,
    Benchmarks,
    Sandbox,
    TrackingUri,
    scoring_options,
)
from regrade.cli.output import TABLE, Output, json_text, tag_runs
from regrade.cli.terminal import print_blocks, show_logs
from regrade.comparing.gate import gate as judge
from regrade.comparing.gate_report import tag_candidate
from regrade.comparing.junit import junit as junit_xml
from regrade.comparing.verdict_text import blocks
from regrade.jobs.job import default_answers
from regrade.settings import GateSettings
from regrade.settings.errors import SettingsError
from regrade.text.files import empty_file, write_reports
from regrade.text.markdown import markdown as as_markdown


def gate(
    candidate: str,
    *,
    baseline: str = "baseline",
    max_drop: float = 1.0,
    max_drop_of: Annotated[
        tuple[str, ...],
        Parameter(
            help="`NAME=POINTS`: accept another drop for this benchmark. May be given several times."
        ),
    ] = (),
    benchmark: Benchmarks = (),
    max_unparsed: float | None = None,
    max_truncated: float | None = None,
    min_coverage: float | None = None,
    allow: Allow = (),
    error_rate: float = 5.0,
    answers: Answers = None,
    base_answers: str | None = None,
    scorer: str | None = None,
    examples: int = 3,
    sandbox: Sandbox = None,
    markdown: Path | None = None,
    junit: Path | None = None,
    report: Path | None = None,
    html: Path | None = None,
    tracking_uri: TrackingUri = None,
    output: Output = TABLE,
) -> None:
    """Judge a candidate against the baseline: exit code 0 pass, 1 regression, 2 cannot tell.

    Exit code 3 or more: no verdict, because of bad usage, missing answers or a failure.

    Args:
        candidate: Answer set id, model or alias.
        baseline: Answer set id, model or alias (`regrade promote` moves the alias `baseline`).
        max_drop: Accepted drop of accuracy, in percentage points.
        max_unparsed: Accepted percent of the candidate's answers from which nothing could be extracted.
        max_truncated: Accepted percent of the candidate's answers that were cut off.
        min_coverage: Least share of the questions to compare, in percent; 90 if not given.
        error_rate: Highest probability of a false regression, and of a false pass, in percent.
        base_answers: Answer repository of the baseline; that of `--answers` if not given.
        scorer: Scorer of both sides, or a function in a file (`path/to/file.py:name`); the baseline's first if not given.
        examples: Number of flipped answers to keep of each kind.
        markdown: File for the verdict as markdown, which a GitHub job also shows in its summary.
        junit: File for the verdict as JUnit XML.
        report: File for the verdict as JSON.
        html: File for a report to hand on, as `regrade report` writes it.
    """
    if examples < 0:
        raise SettingsError(f"`--examples {examples}` should be 0 or more.")
    try:
        settings = GateSettings(
            baseline=baseline,
            max_drop=max_drop,
            max_drop_of=max_drop_of,
            max_unparsed=max_unparsed,
            max_truncated=max_truncated,
            min_coverage=min_coverage,
            allow=allow,
            error_rate=error_rate,
            base_answers=base_answers,
        )
    except ValidationError as error:
        raise SettingsError(option_problems(error, GateSettings)) from error
    if old := [text for text in benchmark if "=" in text]:
        raise SettingsError(
            f"`--benchmark {old[0]}`: another drop for one benchmark is `--max-drop-of {old[0]}`."
        )
    for path in (markdown, junit, report, html):
        if path is not None:
            empty_file(
                path
            )  # refused before judging, and nothing of an earlier verdict is left in it
    if html is not None:
        html.unlink()
    uri = answers or default_answers()
    judged = judge(
        candidate,
        settings,
        answers=uri,
        benchmarks=benchmark,
        scorer=scorer,
        examples=examples,
        scoring=scoring_options(sandbox),
    )
    page = as_markdown(blocks(judged))
    write_reports(page, (markdown, page), (junit, junit_xml(judged)), (report, json_text(judged)))
    output.show(judged, lambda: print_blocks(blocks(judged)))
    if html is not None:
        from regrade.pages.report.of_verdict import write_verdict_report  # noqa: PLC0415 - slow imports

        show_logs("regrade.report", quiet=True)
        write_verdict_report(html, judged)
    tag_runs(tracking_uri, uri, lambda mlflow: tag_candidate(mlflow, judged))
    raise SystemExit(judged.exit_code)
