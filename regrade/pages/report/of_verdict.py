"""The report of exactly those answer sets that a gate judged, for a CI job."""

import logging
from pathlib import Path
from typing import get_args

from regrade.comparing.gate_report import GateReport
from regrade.pages.report.gathering import gather
from regrade.pages.report.page import html_report
from regrade.pages.report.request import ReportRequest
from regrade.settings import Difference
from regrade.settings.errors import RegradeError
from regrade.text.files import write_file

logger = logging.getLogger("regrade.report")


def write_verdict_report(path: Path, judged: GateReport) -> None:
    """Write the report of a verdict's answer sets as HTML, if they can be read here.

    A report that cannot be made is logged: the verdict stands without it.

    Args:
        path: File to write.
        judged: Verdict.
    """
    request = verdict_request(judged)
    if request is None:
        logger.warning("'%s' is not written: no benchmark was compared", path)
        return
    try:
        write_file(path, html_report(gather(request), judged))
    except RegradeError as error:
        logger.warning("'%s' is not written: %s", path, error)


def verdict_request(judged: GateReport) -> ReportRequest | None:
    """Return the content of a report on a verdict's answer sets; None if nothing was compared.

    The gate has accepted all differences other than the model. If one scorer judged all benchmarks, it gives all numbers.
    """
    compared = [
        verdict.comparison for verdict in judged.benchmarks if verdict.comparison is not None
    ]
    if not compared:
        return None
    scorers = {comparison.scorer.split(" ")[0] for comparison in compared}
    repository, before = compared[0].candidate.repository, compared[0].base.repository
    return ReportRequest(
        answers=repository,
        names=tuple(pair.candidate.answer_set_id for pair in compared),
        base=judged.base,
        base_sets=tuple(pair.base.answer_set_id for pair in compared),
        base_answers=None if before == repository else before,
        scorer=scorers.pop() if len(scorers) == 1 else None,
        allow=get_args(Difference),
    )
