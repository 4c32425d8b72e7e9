"""Telemetry is off everywhere: files that cannot import the variables repeat them, with the same values.

Jobs of infra/kubernetes and infra/ci set none: the former run in the GPU image, the latter call `regrade`, which sets them.
"""

import os
import re
from pathlib import Path

import pytest
import yaml

from regrade.cli.environment import set_defaults
from regrade.processes.environment import TELEMETRY_OFF
from tests.command_line import ROOT

WITHOUT_A_SERVER = TELEMETRY_OFF.keys() - {"PREFECT_SERVER_ANALYTICS_ENABLED"}
EXPECTED = {
    "prefect.yaml": WITHOUT_A_SERVER,
    "infra/images/cpu.Dockerfile": TELEMETRY_OFF.keys(),
    "infra/images/gpu.Dockerfile": TELEMETRY_OFF.keys(),
    "infra/compose.yaml": TELEMETRY_OFF.keys(),
    "infra/ui.sh": TELEMETRY_OFF.keys(),
}
ASSIGNMENT = re.compile(rf"\b({'|'.join(TELEMETRY_OFF)})(?:=|: *)(\S+)")


def assignments(path: Path) -> list[tuple[str, str]]:
    return [(name, value.strip("\"'")) for name, value in ASSIGNMENT.findall(path.read_text())]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_file_that_starts_processes_sets_every_variable(name: str):
    assert dict(assignments(ROOT / name)).keys() == EXPECTED[name]


def test_no_file_sets_another_value():
    files = [
        path for path in (ROOT / "infra").rglob("*") if path.is_file() and path.suffix != ".pyc"
    ]
    texts = [path for path in files if path.suffix not in {".safetensors", ".png"}]
    for path in [ROOT / "prefect.yaml", *texts]:
        assert set(assignments(path)) <= set(TELEMETRY_OFF.items()), path


def test_every_deployment_and_every_service_takes_them():
    deployments = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    assert deployments
    for deployment in deployments:
        given = deployment["work_pool"]["job_variables"]["env"]
        assert given.items() >= {name: TELEMETRY_OFF[name] for name in WITHOUT_A_SERVER}.items()
    services = yaml.safe_load((ROOT / "infra/compose.yaml").read_text())["services"]
    for name in services.keys() - {"postgres"}:
        assert services[name]["environment"].items() >= TELEMETRY_OFF.items(), name


def test_the_command_line_sets_them_and_keeps_what_the_user_set(monkeypatch: pytest.MonkeyPatch):
    variables = {"DO_NOT_TRACK": "0"}
    monkeypatch.setattr(os, "environ", variables)
    set_defaults()
    assert variables.items() >= (TELEMETRY_OFF | {"DO_NOT_TRACK": "0"}).items()
