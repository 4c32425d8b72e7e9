"""The result as people read it on the flow run's page: one markdown artifact."""

import base64
import logging
from collections.abc import Sequence

import httpx
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.exceptions import PrefectException

from regrade.beside import BesideError, call_beside
from regrade.diffing import Diff
from regrade.difftext import diffs_markdown
from regrade.plots import Bar, headline_chart
from regrade.report import escape, headline, markdown_report
from regrade.results import Evaluation

logger = logging.getLogger("regrade.report")
RESULT_KEY = "result"
METRICS_KEY = "metrics"


def report(evaluation: Evaluation) -> None:
    """Put the table, links and a plot on the flow run's page."""
    plot = accuracy_plot(evaluation) if evaluation.answer_sets else None
    _show(RESULT_KEY, markdown_report(evaluation, plot), escape(headline(evaluation)))
    _show_metrics(evaluation)


def _show_metrics(evaluation: Evaluation) -> None:
    """Put the headline numbers where programs can read them, such as `regrade trigger --json`."""
    rows = [
        {"benchmark": answers.benchmark, "model": answers.model, "scorer": score.scorer}
        | {name: value for name, value in score.metrics.items() if value is not None}
        for answers in evaluation.answer_sets
        for score in answers.scores
        if score.headline
    ]
    try:
        create_table_artifact(rows, key=METRICS_KEY, description="The numbers for programs")
    except (httpx.HTTPError, PrefectException) as error:
        logger.warning("%s not shown in Prefect: %s", METRICS_KEY, error)


def report_diffs(diffs: Sequence[Diff]) -> None:
    """Put what new versions of scorers changed on the flow run's page."""
    if diffs:
        what = "The scorer changed, the answers did not: what is graded differently now"
        _show("diff", diffs_markdown(diffs), what)


def _show(key: str, markdown: str, description: str) -> None:
    try:
        create_markdown_artifact(markdown, key=key, description=description)
    except (httpx.HTTPError, PrefectException) as error:
        # The scores are published; an unreachable Prefect server takes none of them away.
        logger.warning("%s not shown in Prefect: %s", key, error)


def accuracy_plot(evaluation: Evaluation) -> str | None:
    """Return a small bar chart of the headline accuracies as a `data:` URI; None where it cannot be drawn."""
    bars = []
    for answers in evaluation.answer_sets:
        for score in answers.scores:
            accuracy, low, high = (
                score.metrics[key] for key in ("accuracy", "accuracy_low", "accuracy_high")
            )
            if score.headline and accuracy is not None and low is not None and high is not None:
                bars.append(Bar(f"{answers.benchmark}\n{answers.model}", accuracy, low, high))
    try:
        picture = call_beside(headline_chart, bars)
    except BesideError as error:
        logger.warning("no plot: %s", error)
        return None
    return "data:image/png;base64," + base64.b64encode(picture).decode()
