"""A verdict as JUnit XML, which GitLab, Jenkins and others show beside the tests."""

import re
from xml.etree import ElementTree as ET

from regrade.comparing.gate_report import BenchmarkVerdict, GateReport

# All that XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: GateReport) -> str:
    """Return the report as JUnit XML: one test case for each benchmark.

    A regression is a failure; what cannot be told is an error, since nothing was shown.
    """
    counts = {
        "tests": len(report.benchmarks),
        "failures": sum(one.verdict == "regression" for one in report.benchmarks),
        "errors": sum(one.verdict == "cannot tell" for one in report.benchmarks),
    }
    attributes = {name: str(count) for name, count in counts.items()}
    root = ET.Element("testsuites", {"name": "regrade gate", **attributes})
    name = _text(f"{report.candidate} against {report.base}")
    suite = ET.SubElement(root, "testsuite", {"name": name, **attributes})
    for one in report.benchmarks:
        _case(suite, one, report)
    ET.SubElement(suite, "system-out").text = _text(report.summary)
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _case(suite: ET.Element, one: BenchmarkVerdict, report: GateReport) -> None:
    classname = _text(f"regrade.gate.{report.candidate}")
    case = ET.SubElement(suite, "testcase", {"classname": classname, "name": _text(one.benchmark)})
    if one.verdict != "pass":
        tag = "failure" if one.verdict == "regression" else "error"
        problem = ET.SubElement(case, tag, {"type": one.verdict, "message": _text(one.reason)})
        problem.text = _text(one.reason)


def _text(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
