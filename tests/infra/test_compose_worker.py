"""infra/compose.worker.yaml: a worker on another machine, which knows nothing of the databases."""

import json
import re

import jsonschema
import yaml

from tests.command_line import ROOT
from tests.infra.test_compose import SERVICES, WORKER, WORKER_FILE, compose, needs_compose, schema

EXAMPLE = ROOT / "infra/worker.env.example"
ADDRESSES = {
    "PREFECT_API_URL": "https://prefect.example.org/api",
    "PREFECT_API_AUTH_STRING": "team:a-login",
    "MLFLOW_TRACKING_URI": "https://mlflow.example.org",
    "REGRADE_ANSWERS": "hf://datasets/team/answers",
}
"""Variables without which the worker must not start."""
OPTIONAL = (
    "MLFLOW_TRACKING_USERNAME",
    "MLFLOW_TRACKING_PASSWORD",
    "MLFLOW_TRACKING_TOKEN",
    "HF_TOKEN",
    "REGRADE_FOLDERS",
)


def test_the_file_follows_the_compose_specification():
    jsonschema.Draft202012Validator(schema()).validate(WORKER)


def test_no_variable_is_of_the_databases_and_the_servers_need_only_addresses_and_a_login():
    text = WORKER_FILE.read_text()
    assert set(re.findall(r"\$\{([A-Z_]+):\?set \1 in infra/worker.env,", text)) == set(ADDRESSES)
    assert text.count(":?") == len(ADDRESSES)
    assert not re.search("postgres|database", json.dumps(WORKER), re.IGNORECASE)


@needs_compose
def test_docker_compose_starts_it_with_the_addresses_alone_and_passes_every_login_on():
    optional = dict.fromkeys(OPTIONAL, "given")
    done = compose("config", file=WORKER_FILE, **ADDRESSES, **optional)
    assert done.code == 0, done.err
    (worker,) = yaml.safe_load(done.out)["services"].values()
    assert worker["environment"].items() >= (ADDRESSES | optional).items()
    assert compose("config", file=WORKER_FILE, **ADDRESSES).code == 0
    refused = compose("config", file=WORKER_FILE, **(ADDRESSES | {"MLFLOW_TRACKING_URI": ""}))
    assert refused.code != 0
    assert "set MLFLOW_TRACKING_URI in infra/worker.env" in refused.err + refused.out


def test_every_variable_of_the_file_is_explained_in_its_example():
    used = set(re.findall(r"\$\{([A-Z_]+)", WORKER_FILE.read_text()))
    explained = set(re.findall(r"^([A-Z_]+)=", EXAMPLE.read_text(), re.MULTILINE))
    assert used == explained - {"COMPOSE_PROJECT_NAME"}


def test_it_is_the_gpu_worker_of_the_stack():
    ours, theirs = dict(SERVICES["worker-gpu"]), dict(WORKER["services"]["worker-gpu"])
    assert ours.pop("depends_on")
    for service in (ours, theirs):
        service["environment"] = set(service["environment"])
        service["volumes"] = set(service["volumes"]) - {"answers:/data/answers"}
    assert ours.pop("environment") <= theirs.pop("environment")
    assert ours == theirs


def test_its_secrets_stay_out_of_git_and_of_the_images():
    for name in (".gitignore", ".dockerignore"):
        assert "infra/worker.env" in (ROOT / name).read_text().replace("/infra", "infra").split()
