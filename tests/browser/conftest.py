"""A Prefect server with the deployments of prefect.yaml, and a browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.pages import Pages, opened
from tests.command_line import regrade


@pytest.fixture(scope="session")
def deployments(prefect_server: str) -> None:
    """The deployments of prefect.yaml on the session's server."""
    deployed = regrade("deploy", timeout=250, PREFECT_API_URL=prefect_server)
    assert deployed.code == 0, deployed.out + deployed.err


@pytest.fixture
def pages(prefect_server: str, tmp_path: Path) -> Iterator[Pages]:
    with opened(prefect_server, tmp_path) as pages:
        yield pages
