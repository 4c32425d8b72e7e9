"""A report as an artifact of an MLflow run."""

import hashlib
from dataclasses import asdict, replace

import orjson

from regrade.answers import parquet
from regrade.answers.opening import open_repository
from regrade.comparing.gate_report import GateReport
from regrade.pages.report.request import ReportRequest
from regrade.settings.errors import SettingsError
from regrade.settings.project_folder import VERSION
from regrade.settings.view_address import default_answers, view_prefix
from regrade.tracking.connection import log_page

ARTIFACT = "report.html"


def prepare_report() -> None:
    """Import what a report with new answers needs, and begin what it waits for."""
    import matplotlib.figure  # noqa: F401 - a run that made no answers needs no report

    from regrade.pages.report import gathering, page  # noqa: F401, PLC0415 - as above

    parquet.prepare()


def log_report(
    uri: str, run_id: str, request: ReportRequest, verdict: GateReport | None = None
) -> None:
    """Make a report and add it to a run, unless the run has the same one: of the same request, verdict and stored answers.

    A baseline that cannot be compared with is left out: the run's gate says so.

    Args:
        uri: MLflow tracking URI.
        run_id: Run of the model's evaluation.
        request: Content of the report.
        verdict: Verdict of the run's gate, with which the page begins.

    Raises:
        RepositoryError: If the answers are not found.
        DamagedAnswersError: If they are damaged.
        TrackingError: If MLflow cannot be reached or rejects the file.
    """

    def page() -> str:
        from regrade.pages.report.gathering import gather  # noqa: PLC0415 - as in `prepare_report`
        from regrade.pages.report.page import html_report  # noqa: PLC0415

        try:
            report = gather(request)
        except SettingsError:
            if request.base is None:
                raise
            report = gather(replace(request, base=None, base_sets=(), base_answers=None))
        return html_report(report, verdict)

    log_page(uri, run_id, ARTIFACT, page, _source(request, verdict))


def _source(request: ReportRequest, verdict: GateReport | None) -> str:
    """Return a digest of a report's request and of what it is made of."""
    read = {request.answers, request.base_answers or request.answers}
    heads = {address: open_repository(address, create=False).head() for address in sorted(read)}
    judged = None if verdict is None else verdict.model_dump(mode="json")
    links = view_prefix(), default_answers()
    content = {
        "request": asdict(request),
        "heads": heads,
        "verdict": judged,
        "links": links,
        "regrade": VERSION,
    }
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()
