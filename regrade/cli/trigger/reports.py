"""The reports of a flow run as files that CI picks up."""

import os
from pathlib import Path
from xml.etree import ElementTree

from regrade.cli.trigger.outcome import Outcome
from regrade.errors import SettingsError
from regrade.reporting.junit import junit


def write_reports(found: Outcome, markdown: Path | None, junit_xml: Path | None) -> None:
    """Write the reports that were asked for, and the markdown into GitHub's summary of the job where there is one.

    Raises:
        SettingsError: If a file cannot be written.
    """
    page = found.markdown()
    try:
        if markdown is not None:
            markdown.write_text(page, encoding="utf-8")
        if junit_xml is not None:
            junit_xml.write_text(_junit(found), encoding="utf-8")
        if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
            with Path(summary).open("a", encoding="utf-8") as file:
                file.write(f"{page}\n")
    except OSError as error:
        raise SettingsError(
            f"The report '{error.filename}' cannot be written: {error.strerror}."
        ) from error


def _junit(found: Outcome) -> str:
    if found.gate is not None:
        return junit(found.gate)
    failed = bool(found.problem)
    suite = ElementTree.Element(
        "testsuite", name=f"regrade {found.deployment}", tests="1", errors=str(int(failed))
    )
    case = ElementTree.SubElement(suite, "testcase", classname="regrade", name=found.deployment)
    if failed:
        ElementTree.SubElement(case, "error", message=found.problem)
    ElementTree.indent(suite)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(suite, encoding="unicode")}\n'
