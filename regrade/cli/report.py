"""`regrade report`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from regrade.cli.command_list import command
from regrade.cli.options import Allow, Answers
from regrade.cli.output import TABLE, Output, end_if_left_out
from regrade.settings.errors import SettingsError

FORMATS = (".html", ".md")


@command(group="Hand on")
def report(
    *names: str,
    base: Annotated[str | None, Parameter(name=("--baseline", "--base"))] = None,
    answers: Answers = None,
    base_answers: Annotated[
        str | None, Parameter(name=("--baseline-answers", "--base-answers"))
    ] = None,
    scorer: str | None = None,
    allow: Allow = (),
    examples: int = 200,
    output: Output = TABLE,
) -> None:
    """Write a report to hand on: one file with results, changes, plots and answers.

    An `.html` file holds everything, without scripts; a `.md` file is for a pull request or a chat. A report of all answer sets
    leaves out damaged ones, and names them; the exit code is then 1.

    Args:
        names: Answer set ids, models or aliases, then the file: `FILE.html` or `FILE.md`. Without names: all answer sets.
        base: Answer set id, model or alias to compare with.
        base_answers: Answer repository of the baseline; that of `--answers` if not given.
        scorer: Scorer of all numbers; the headline's if not given.
        examples: Most answers to show: flipped ones first, then wrong and unparsed ones; at most 200.

    Examples:
        report report.html
        report 1f0c6a2b report.md --baseline baseline
    """
    if not names:
        raise SettingsError("Name the file to write, such as `regrade report report.html`.")
    if not names[-1].endswith(FORMATS):
        raise SettingsError(
            f"The last argument should be the file to write, FILE.html or FILE.md, not '{names[-1]}'."
        )
    # A refusal does not wait for these imports.
    from regrade.pages.report.gathering import gather  # noqa: PLC0415
    from regrade.pages.report.page import html_report, markdown_report  # noqa: PLC0415
    from regrade.pages.report.request import ReportRequest  # noqa: PLC0415
    from regrade.settings.view_address import default_answers  # noqa: PLC0415
    from regrade.text.files import write_file  # noqa: PLC0415

    path = Path(names[-1])
    request = ReportRequest(
        answers=answers or default_answers(),
        names=names[:-1],
        base=base,
        base_answers=base_answers,
        scorer=scorer,
        allow=allow,
        examples=examples,
    )
    written = html_report if path.suffix == ".html" else markdown_report
    gathered = gather(request)
    write_file(path, written(gathered))
    output.files([path], gathered.left_out)
    end_if_left_out(gathered.left_out)
