"""Sandboxes that tests share: each kind is opened, and shown to hold, once. Tests set limits of their own (`with_limits`)."""

from collections.abc import Iterator

import pytest

from regrade.processes.sandbox.limits import Limits
from regrade.processes.sandbox.sandbox import Sandbox, open_sandbox
from tests.processes.sandbox.bubblewrap import needs_bubblewrap

AT_ONCE = 4
"""Programs that may run at the same time."""
QUICK = Limits(test_cpu_seconds=1, call_cpu_seconds=1, program_cpu_seconds=3, wall_factor=3)


@pytest.fixture(scope="session")
def bwrap() -> Iterator[Sandbox]:
    with open_sandbox("bwrap", limits=QUICK, processes=AT_ONCE) as opened:
        yield opened


@pytest.fixture(scope="session")
def landlock() -> Iterator[Sandbox]:
    with open_sandbox("landlock", limits=QUICK, processes=AT_ONCE) as opened:
        yield opened


@pytest.fixture(scope="session", params=[pytest.param("bwrap", marks=needs_bubblewrap), "landlock"])
def either(request: pytest.FixtureRequest) -> Sandbox:
    """A sandbox of each kind."""
    sandbox: Sandbox = request.getfixturevalue(request.param)
    return sandbox
