"""Each deployment of prefect.yaml fits its flow. Workers run them in tests/infra/test_stack.py and tests/crash/on_worker.py."""

from typing import Any

import pytest
import yaml
from prefect.flows import load_flow_from_entrypoint
from prefect.utilities.schema_tools.validation import validate

from tests.command_line import ROOT

DEPLOYMENTS = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=[entry["name"] for entry in DEPLOYMENTS])
def test_each_deployment_loads_without_a_placeholder_and_its_parameters_fit(
    deployment: dict[str, Any],
):
    flow = load_flow_from_entrypoint(deployment["entrypoint"], use_placeholder_flow=False)
    schema = flow.parameters.model_dump_for_openapi()
    assert validate(deployment["parameters"], schema, ignore_required=True) == []
    assert set(deployment["parameters"]) <= set(flow.parameters.properties)
