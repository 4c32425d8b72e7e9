"""Telemetry is off everywhere: files that cannot import the variables repeat them, with the same values.

infra/kubernetes and infra/ci set no variables: the Jobs run in the GPU image, and CI calls `regrade`, which sets them.
"""

import os
import re
from pathlib import Path

import pytest
import yaml

from regrade.processes.environment import TELEMETRY_OFF, set_defaults
from tests.command_line import ROOT

ASSIGNMENT = re.compile(rf"\b({'|'.join(TELEMETRY_OFF)})(?:=|: *)[\"']?(\w+)")
SERVERS = ("infra/images/cpu.Dockerfile", "infra/images/gpu.Dockerfile", "infra/ui.sh")
FILES = [path for path in (ROOT / "infra").rglob("*") if path.suffix in {".sh", ".yaml", ".yml"}]


def assignments(path: Path) -> set[tuple[str, str]]:
    return set(ASSIGNMENT.findall(path.read_text()))


@pytest.mark.parametrize("name", SERVERS)
def test_a_file_that_starts_servers_sets_every_variable(name: str):
    assert assignments(ROOT / name) == set(TELEMETRY_OFF.items())


def test_no_file_sets_another_value():
    for path in FILES:
        assert assignments(path) <= set(TELEMETRY_OFF.items()), path


def test_every_service_takes_them_and_every_deployment_those_that_its_runs_need():
    services = yaml.safe_load((ROOT / "infra/compose.yaml").read_text())["services"]
    for name in services.keys() - {"postgres", "backup"}:
        assert services[name]["environment"].items() >= TELEMETRY_OFF.items(), name
    without_server = TELEMETRY_OFF.items() - {("PREFECT_SERVER_ANALYTICS_ENABLED", "false")}
    for deployment in yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]:
        assert deployment["work_pool"]["job_variables"]["env"].items() >= without_server


def test_the_command_line_sets_them_and_keeps_the_users_values(monkeypatch: pytest.MonkeyPatch):
    variables = {"DO_NOT_TRACK": "0"}
    monkeypatch.setattr(os, "environ", variables)
    set_defaults()
    assert variables.items() >= (TELEMETRY_OFF | {"DO_NOT_TRACK": "0"}).items()
