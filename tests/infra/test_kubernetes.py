"""The Job that Prefect creates for a flow run of the `gpu` pool, checked with the schemas of Kubernetes."""

import copy
from typing import Any

import kubernetes_validate
import pytest
from prefect.utilities.templating import apply_values, find_placeholders

from infra.kubernetes.__main__ import template

VERSION = "1.33"


def job(**given: Any) -> dict[str, Any]:
    """The manifest with the pool's defaults, without the two keys that Prefect's worker requires in the wrong place."""
    variables = template()["variables"]["properties"]
    values = {name: one["default"] for name, one in variables.items() if "default" in one}
    values |= {"name": "evaluate", "command": ["prefect", "flow-run", "execute"], **given}
    manifest = apply_values(template()["job_configuration"]["job_manifest"], values)
    pod = manifest["spec"]["template"]["spec"]
    assert pod.pop("parallelism") == pod.pop("completions") == 1
    return dict(manifest)


def test_the_job_follows_the_schema_of_kubernetes():
    kubernetes_validate.validate(job(), VERSION, strict=True)


def test_the_schema_notices_a_wrong_field():
    wrong = copy.deepcopy(job())
    wrong["spec"]["template"]["spec"]["terminationGracePeriod"] = 120
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSION, strict=True)


def test_every_placeholder_is_a_variable_of_the_pool():
    configuration = template()["job_configuration"]
    names = {placeholder.name for placeholder in find_placeholders(configuration)}
    assert names == set(template()["variables"]["properties"])


def test_the_job_gets_the_gpus_that_were_asked_for():
    (container,) = job(gpus=4)["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 4
    (container,) = job()["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 1


def test_secrets_are_references_and_the_engine_gets_time_to_end():
    pod = job()["spec"]["template"]["spec"]
    (token,) = [one for one in pod["containers"][0]["env"] if one["name"] == "HF_TOKEN"]
    assert "value" not in token
    assert token["valueFrom"]["secretKeyRef"]["name"] == "regrade"
    assert pod["terminationGracePeriodSeconds"] >= 60
    assert pod["securityContext"]["runAsNonRoot"] is True
