"""The form of each deployment's parameters, as the Prefect UI gets it; settings that several have are in one file."""

import json
from typing import Any

import pytest
import yaml
from prefect.flows import load_flow_from_entrypoint

from regrade.orchestration.form import form_schema
from tests.command_line import ROOT
from tests.golden.golden import matches_golden

ENTRYPOINTS = {
    str(deployment["name"]): str(deployment["entrypoint"])
    for deployment in yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
}


@pytest.mark.parametrize("name", ENTRYPOINTS)
def test_a_deployment_asks_for_the_same_parameters(name: str):
    flow = load_flow_from_entrypoint(ENTRYPOINTS[name], use_placeholder_flow=False)
    schema = form_schema(flow)
    for title, definition in schema.pop("definitions", {}).items():
        matches_golden(f"forms/definitions/{title}.json", text_of(definition))
    matches_golden(f"forms/{name}.json", text_of(schema))


def text_of(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
