"""A report as an artifact of an MLflow run."""

from dataclasses import replace

from regrade.pages.report.gathering import Request, gather
from regrade.pages.report.page import html_report
from regrade.settings.errors import SettingsError
from regrade.tracking.connection import log_page

ARTIFACT = "report.html"


def log_report(uri: str, run_id: str, request: Request) -> None:
    """Make a report and add it to a run.

    A baseline that cannot be compared with is left out: the run's gate says so.

    Args:
        uri: MLflow tracking URI.
        run_id: Run of the model's evaluation.
        request: Content of the report.

    Raises:
        RepositoryError: If the answers are not found.
        DamagedAnswersError: If they are damaged.
        TrackingError: If MLflow cannot be reached or rejects the file.
    """
    try:
        report = gather(request)
    except SettingsError:
        if request.base is None:
            raise
        report = gather(replace(request, base=None, base_sets=(), base_answers=None))
    log_page(uri, run_id, ARTIFACT, html_report(report))
