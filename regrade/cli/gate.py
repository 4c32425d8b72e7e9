"""`regrade gate`."""

from regrade.cli.checking import job_of
from regrade.cli.command_list import command
from regrade.cli.job_options import JobOptions
from regrade.cli.output import TABLE, Output, tag_runs
from regrade.cli.terminal import show_logs
from regrade.cli.verdict_files import NO_FILES, VerdictFiles
from regrade.comparing.gate_report import tag_candidate
from regrade.comparing.job import GateJob
from regrade.comparing.verdict_text import blocks
from regrade.settings.errors import SettingsError


class GateOptions(JobOptions, job=GateJob):
    """Options of `regrade gate`."""


@command(
    group="Compare and decide",
    gives_verdict=True,
    codes="0 pass, 1 regression, 2 cannot tell, 3 no verdict: bad usage, missing answers or a failure",
)
def gate(
    candidate: str,
    *,
    options: GateOptions | None = None,
    files: VerdictFiles = NO_FILES,
    output: Output = TABLE,
) -> None:
    """Judge a candidate against the baseline: exit code 0 pass, 1 regression, 2 cannot tell.

    Args:
        candidate: Answer set id, model or alias.

    Examples:
        gate org/model --baseline baseline --max-drop 3
        gate org/model --max-drop 1 --max-drop-of gsm8k=3 --max-unparsed 2 --markdown verdict.md --junit verdict.xml
    """
    job = job_of(GateJob, options or GateOptions(), candidate=candidate)
    if old := [text for text in job.benchmarks if "=" in text]:
        raise SettingsError(
            f"`--benchmark {old[0]}`: another drop for one benchmark is `--max-drop-of {old[0]}`."
        )
    with files.written("gate") as verdicts:
        show_logs("regrade.gate", quiet=output.quiet)  # what the questions can show
        judged = job.verdict()
        verdicts.append(judged)
    output.show(judged, lambda: blocks(judged))
    show_logs("regrade.report", quiet=True)
    files.write_html(judged)
    tag_runs(job.tracking_uri, job.answers, lambda mlflow: tag_candidate(mlflow, judged))
    raise SystemExit(judged.exit_code)
