"""`regrade compare`."""

from pathlib import Path

from regrade.cli.checking import job_of
from regrade.cli.command_list import command
from regrade.cli.job_options import JobOptions
from regrade.cli.output import TABLE, Output
from regrade.comparing.job import CompareJob
from regrade.comparing.text import blocks, not_compared
from regrade.settings.errors import SettingsError
from regrade.text.files import write_file
from regrade.text.markdown import markdown as as_markdown


class CompareJobOptions(JobOptions, job=CompareJob, without=("gate", "tracking_uri")):
    """Options of `regrade compare`: the verdict is that of `regrade gate`, and nothing is tracked."""


@command(group="Compare and decide")
def compare(
    base: str,
    candidate: str,
    *,
    options: CompareJobOptions | None = None,
    markdown: Path | None = None,
    output: Output = TABLE,
) -> None:
    """Compare two models, or two answer sets, question by question.

    Two models are compared on every benchmark for which both have a complete answer set.

    Args:
        base: Answer set id, model, or alias such as `baseline`.
        candidate: Answer set id, model or alias to compare with the base.
        markdown: File for the comparison as markdown.

    Examples:
        compare baseline org/model
        compare 1f0c6a2b 77ab01cd --examples 5 --allow sampling --markdown comparison.md
    """
    job = job_of(CompareJob, options or CompareJobOptions(), base=base, candidate=candidate)
    comparisons = job.compared().comparisons
    if markdown is not None:
        write_file(markdown, as_markdown(blocks(comparisons)))
    page = blocks(comparisons) if comparisons.compared else []  # the error gives the reason
    output.show(comparisons.model_dump(mode="json"), lambda: page)
    if not comparisons.compared:
        reason = " ".join(not_compared(comparisons)) or "the two have no benchmark in common"
        raise SettingsError(f"Nothing could be compared: {reason}")
