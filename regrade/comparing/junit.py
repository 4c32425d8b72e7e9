"""JUnit XML of a verdict or a failed run, which GitLab, Jenkins and others show beside the tests."""

import re
from xml.etree import ElementTree as ET

from regrade.comparing.gate_report import GateReport

# Characters that XML 1.0 forbids, even escaped.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: GateReport) -> str:
    """Return the report as JUnit XML: one test case for each benchmark.

    A regression is a failure, `cannot tell` an error.
    """
    counts = {
        "tests": len(report.benchmarks),
        "failures": sum(judged.verdict == "regression" for judged in report.benchmarks),
        "errors": sum(judged.verdict == "cannot tell" for judged in report.benchmarks),
    }
    attributes = {name: str(count) for name, count in counts.items()}
    root = ET.Element("testsuites", {"name": "regrade gate", **attributes})
    name = _text(f"{report.candidate} against {report.base}")
    suite = ET.SubElement(root, "testsuite", {"name": name, **attributes})
    for judged in report.benchmarks:
        classname = _text(f"regrade.gate.{report.candidate}")
        case_name = {"classname": classname, "name": _text(judged.benchmark)}
        case = ET.SubElement(suite, "testcase", case_name)
        if judged.verdict != "pass":
            tag = "failure" if judged.verdict == "regression" else "error"
            reason = _text(judged.reason)
            ET.SubElement(case, tag, {"type": judged.verdict, "message": reason}).text = reason
    ET.SubElement(suite, "system-out").text = _text(report.summary)
    return _document(root)


def junit_run(name: str, problem: str) -> str:
    """Return JUnit XML of a run without a verdict: one test case, an error if there is a problem."""
    errors = str(int(bool(problem)))
    root = ET.Element(
        "testsuite", {"name": _text(f"regrade {name}"), "tests": "1", "errors": errors}
    )
    case = ET.SubElement(root, "testcase", {"classname": "regrade", "name": _text(name)})
    if problem:
        ET.SubElement(case, "error", {"message": _text(problem)})
    return _document(root)


def _document(root: ET.Element) -> str:
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _text(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
