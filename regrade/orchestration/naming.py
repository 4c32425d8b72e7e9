"""Name a flow run by its result, so that the list of runs shows it."""

import logging

import httpx
from prefect.client.orchestration import get_client
from prefect.exceptions import PrefectException
from prefect.runtime import flow_run

from regrade.reporting.headlines import short_headline
from regrade.reporting.results import Evaluation

logger = logging.getLogger("regrade.report")
MAX_NAME = 150
"""Longest name of a run, in characters."""
SECONDS = 10.0
"""Longest time for the request, in seconds."""


def name_run(evaluation: Evaluation) -> None:
    """Rename this flow run to `<model>: <benchmark> <accuracy>, ...`; only warn if the server fails."""
    name = short_headline(evaluation)
    if not name:
        return
    if len(name) > MAX_NAME:
        name = f"{name[: MAX_NAME - 1]}…"
    try:
        with get_client(sync_client=True, httpx_settings={"timeout": SECONDS}) as client:
            client.update_flow_run(flow_run.id, name=name)
    except (httpx.HTTPError, PrefectException) as error:
        logger.warning("the run is not named by its result in Prefect: %s", error)
