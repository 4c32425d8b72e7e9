"""The Job that Prefect creates for a flow run of the `gpu` pool, checked with the schemas of Kubernetes."""

from typing import Any

import kubernetes_validate
import pytest
import yaml
from prefect.utilities.templating import apply_values, find_placeholders

from infra.kubernetes.__main__ import TEMPLATE, indexed_job, template
from regrade.jobs.shares import Share
from tests.command_line import regrade

VERSION = "1.33"


def job(**given: Any) -> dict[str, Any]:
    """The manifest with the pool's defaults, without the two keys that Prefect's worker requires in the wrong place."""
    variables = template()["variables"]["properties"]
    values = {
        name: variable["default"] for name, variable in variables.items() if "default" in variable
    }
    values |= {"name": "evaluate", "command": ["prefect", "flow-run", "execute"], **given}
    manifest = apply_values(template()["job_configuration"]["job_manifest"], values)
    pod = manifest["spec"]["template"]["spec"]
    assert pod.pop("parallelism") == pod.pop("completions") == 1
    return dict(manifest)


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
    pod = pod_of(job())
    variables = {variable["name"]: variable for variable in pod["containers"][0]["env"]}
    for name in ("HF_TOKEN", "PREFECT_API_AUTH_STRING", "MLFLOW_TRACKING_PASSWORD"):
        assert "value" not in variables[name]
        assert variables[name]["valueFrom"]["secretKeyRef"]["name"] == "regrade"
    assert pod["terminationGracePeriodSeconds"] >= 60


def pod_of(manifest: dict[str, Any]) -> dict[str, Any]:
    return dict(manifest["spec"]["template"]["spec"])


@pytest.mark.parametrize("indexed", [False, True])
def test_the_job_passes_the_restricted_pod_security_profile(indexed: bool):
    """https://kubernetes.io/docs/concepts/security/pod-security-standards/"""
    manifest = several() if indexed else job()
    kubernetes_validate.validate(manifest, VERSION, strict=True)
    pod = pod_of(manifest)
    shared = {"hostNetwork", "hostPID", "hostIPC", "initContainers", "ephemeralContainers"}
    assert not shared & pod.keys()
    kinds = {kind for volume in pod["volumes"] for kind in volume}
    assert kinds <= {"name", "persistentVolumeClaim", "emptyDir", "secret"}
    user = {"runAsUser": 10001, "runAsGroup": 10001, "fsGroup": 10001}
    assert pod["securityContext"] == user | {
        "runAsNonRoot": True,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "ports" not in container


def test_a_private_registry_a_kind_of_node_and_a_service_account_can_be_chosen():
    manifest = job(
        image_pull_secrets=[{"name": "registry"}],
        node_selector={"nvidia.com/gpu.product": "NVIDIA-H100"},
        service_account_name="regrade",
        image_pull_policy="IfNotPresent",
        volume_claim="regrade-fast",
    )
    kubernetes_validate.validate(manifest, VERSION, strict=True)
    pod = pod_of(manifest)
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-H100"}
    assert pod["serviceAccountName"] == "regrade"
    assert pod["automountServiceAccountToken"] is False
    assert pod["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert pod["volumes"][0]["persistentVolumeClaim"]["claimName"] == "regrade-fast"


def test_a_tag_that_was_pushed_again_is_pulled():
    assert pod_of(job())["containers"][0]["imagePullPolicy"] == "Always"


def test_the_volume_is_the_one_that_the_jobs_mount_on_any_node():
    claim = yaml.safe_load(TEMPLATE.with_name("volume.yaml").read_text())
    kubernetes_validate.validate(claim, VERSION, strict=True)
    (mounted,) = [
        volume for volume in pod_of(job())["volumes"] if "persistentVolumeClaim" in volume
    ]
    assert claim["metadata"]["name"] == mounted["persistentVolumeClaim"]["claimName"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]


def several(machines: int = 4, **variables: Any) -> dict[str, Any]:
    options = ["--model", "org/tiny", "--benchmark", "gsm8k"]
    return indexed_job(machines, options, variables)


def test_each_pod_of_the_indexed_job_finds_its_share():
    manifest = several(3, gpus=2)
    spec = manifest["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 3, 3)
    (container,) = pod_of(manifest)["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 2
    environment = {
        variable["name"]: variable["value"] for variable in container["env"] if "value" in variable
    }
    shares = [
        Share.parse("auto", {**environment, "JOB_COMPLETION_INDEX": str(index)})
        for index in range(3)
    ]
    assert list(map(str, shares)) == ["1/3", "2/3", "3/3"]


@pytest.mark.slow
def test_the_command_of_the_indexed_job_is_one_that_regrade_takes():
    (container,) = pod_of(several())["containers"]
    command, *arguments = container["args"]
    assert command == "regrade"
    outside = regrade(*arguments)  # without the variables of an indexed Job
    assert outside.code == 2
    assert "share 'auto' needs a Slurm array" in outside.err


def test_the_indexed_job_restarts_a_failed_pod_without_the_others():
    spec = several()["spec"]
    assert spec["backoffLimitPerIndex"] > 0
    assert "backoffLimit" not in spec  # it would count the failures of all pods
    with pytest.raises(SystemExit, match="unknown variable 'gpu'"):
        several(gpu=2)
