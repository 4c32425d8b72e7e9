"""Requests to the Prefect server that a run can do without."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from prefect.exceptions import PrefectException

from regrade.orchestration.remote.access import without_login


@contextmanager
def optional(logger: logging.Logger, problem: str, advice: str = "") -> Iterator[None]:
    """Log a warning if the Prefect server fails in the block: what the run is for is complete without it.

    Args:
        logger: Logger of the caller.
        problem: Missing result, in words.
        advice: Alternative for the user, if any.
    """
    try:
        yield
    except (httpx.HTTPError, PrefectException) as error:
        logger.warning("%s (%s)%s", problem, without_login(error), advice and f"; {advice}")
