"""Files for the verdict of a gate, which `regrade gate` and `regrade evaluate` write for a CI job."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cyclopts import Parameter
from pydantic import BaseModel

from regrade.cli.options import WHERE
from regrade.cli.output import ReportFiles, json_text
from regrade.comparing.gate_report import GateReport
from regrade.comparing.junit import junit, junit_run
from regrade.comparing.verdict_text import blocks
from regrade.results.results import Evaluation
from regrade.text.blocks import Heading, Line
from regrade.text.markdown import markdown

logger = logging.getLogger("regrade")


@Parameter(name="*", group=WHERE)
@dataclass(frozen=True, kw_only=True)
class VerdictFiles(ReportFiles):
    """Files for a verdict."""

    report: Path | None = None
    """File for the verdict as JSON."""

    def chosen(self) -> list[str]:
        """Return the options that were given."""
        return [f"--{name}" for name, path in vars(self).items() if path is not None]

    @contextmanager
    def written(self, command: str) -> Iterator[list[BaseModel]]:
        """Write all files but the HTML when the block ends, with the last verdict in the list or with the error that ended it.

        Raises:
            SettingsError: If a file cannot be written.
        """
        verdicts: list[BaseModel] = []
        try:
            title = Heading(f"regrade {command}: no verdict", 1)
            with self.written_on_failure(
                command, lambda problem: markdown([title, Line(problem)]), self.report
            ):
                yield verdicts
        finally:
            if verdicts and isinstance(judged := verdicts[-1], GateReport):
                page = markdown(blocks(judged))
                self.write(page, junit(judged), (self.report, json_text(judged)))

    def write_first(self, alias: str, evaluation: Evaluation) -> None:
        """Write the result of a first evaluation, whose answers become the baseline in place of a verdict."""
        from regrade.results.page import blocks as results  # noqa: PLC0415 - only needed for a result

        line = Line(f"Baseline created: there were no answers named {alias} to compare with.")
        page = markdown([Heading("regrade evaluate: first run", 1), line, *results(evaluation)])
        self.write(page, junit_run("evaluate", ""), (self.report, json_text(evaluation)))
        if self.html is not None:
            logger.warning("'%s' is not written: a first run has no verdict", self.html)


NO_FILES = VerdictFiles()
