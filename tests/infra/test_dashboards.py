"""Dashboards of Grafana: a real Prometheus answers each query, from real runs and a real vLLM. Pages are not rendered."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from infra.grafana.__main__ import FOLDER, path, text
from infra.grafana.panels import DASHBOARDS, EVALUATION, FLEET, VLLM, Dashboard
from infra.stack import prometheus
from infra.stack.layout import Layout
from regrade.processes import metrics_endpoint as endpoint
from tests.command_line import ROOT
from tests.infra.prometheus import running
from tests.processes.test_endpoint import STATE
from tests.server_process import free_port


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=[source.name for source in DASHBOARDS])
def test_the_files_are_those_that_the_panels_make(dashboard: Dashboard):
    assert path(dashboard).read_text() == text(dashboard), "run `python -m infra.grafana`"


def test_panels_and_queries_do_not_overlap_or_repeat():
    for dashboard in DASHBOARDS:
        document = json.loads(path(dashboard).read_text())
        places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in document["panels"]]
        titles = [panel["title"] for panel in document["panels"]]
        assert len({*places}) == len(places) == len({*titles})


def test_compose_mounts_every_dashboard_and_the_provisioning_names_their_folder():
    file = yaml.safe_load((ROOT / "infra/compose.monitoring.yaml").read_text())
    mounted = file["services"]["grafana"]["volumes"]
    provider = yaml.safe_load((FOLDER / "provisioning/dashboards/regrade.yaml").read_text())
    folder = provider["providers"][0]["options"]["path"]
    for dashboard in DASHBOARDS:
        assert f"./grafana/{dashboard.name}.json:{folder}/{dashboard.name}.json:ro" in mounted


@pytest.fixture
def advancing(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Address of the metrics of an evaluation that answers ten questions a second."""
    monkeypatch.setenv(endpoint.PORT_VARIABLE, str(free_port()))
    started = time.monotonic()

    def states() -> list[endpoint.AnswerSetState]:
        answers = int(10 * (time.monotonic() - started)) + 1
        return [
            replace(
                STATE,
                planned=10_000,
                answers=answers,
                completion_tokens=100 * answers,
                prompt_tokens=400 * answers,
                load_seconds=12.0,
            )
        ]

    address = endpoint.show(states)
    assert address is not None
    yield address.removeprefix("http://").removesuffix("/metrics")
    endpoint.stop()


@pytest.mark.stack
def test_every_panel_of_an_evaluation_and_of_the_fleet_has_a_value(advancing: str, tmp_path: Path):
    with running(tmp_path, {"regrade": [advancing]}) as server:
        for dashboard in (EVALUATION, FLEET):
            server.wait_until_answered(dashboard, 60)

        (speed,) = server.ask("sum(irate(regrade_answers_total[15s]))")
        (left,) = server.ask("regrade_answers_left")

    assert 7 < float(speed["value"][1]) < 13
    assert left["metric"]["model"] == STATE.model
    assert 5000 < float(left["value"][1]) < 10_000 - STATE.stored


@pytest.mark.stack
def test_the_queries_for_vllm_are_valid(tmp_path: Path):
    with running(tmp_path, {}) as server:
        assert len(server.unanswered(VLLM)) == len(VLLM.panels)


@pytest.mark.slow
@pytest.mark.vllm
def test_a_real_run_against_a_real_vllm_fills_every_panel(vllm_server: str, tmp_path: Path):
    port = free_port()
    served = vllm_server.removeprefix("http://").removesuffix("/v1")
    questions = tmp_path / "questions.jsonl"
    rows = [{"question": f"What is {k} plus 3?", "answer": k + 3} for k in range(400)]
    questions.write_text("\n".join(map(json.dumps, rows)))
    config = {
        "model": "demo",
        "engine": {"kind": "openai", "base_url": vllm_server, "max_concurrency": 4},
        "datasets": [
            {
                "name": "sums",
                "path": str(questions),
                "scorer": "number",
                "sampling": {"max_tokens": 64},
            }
        ],
        "answers": str(tmp_path / "answers"),
        "goodput": "e2el:60s",
    }
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    command = [sys.executable, "-m", "regrade.cli.main", "generate", "--json"]
    command += ["--config", str(tmp_path / "config.yaml"), "--metrics-port", str(port)]
    environment = {**os.environ, "REGRADE_PUBLISH_SECONDS": "2", "REGRADE_SPOOL": str(tmp_path)}
    with (
        running(tmp_path, {"regrade": [f"127.0.0.1:{port}"], "vllm": [served]}) as server,
        subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE) as run,
    ):
        try:
            server.wait_until_answered(EVALUATION, 200)
            server.wait_until_answered(FLEET, 30)
            server.wait_until_answered(VLLM, 30)
            out = run.communicate(timeout=200)[0]
        finally:
            run.kill()

    assert run.returncode == 0
    (answers,) = json.loads(out)["answer_sets"]
    assert answers["generated"] == 400
    assert answers["speed"]["measured_by"] == "client"
    assert answers["speed"]["goodput"]["within"] == 400
    assert answers["speed"]["other_side"]["requests"] == 400


def test_the_stacks_prometheus_scrapes_every_port_of_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(endpoint.PORT_VARIABLE, "9500-9502")
    jobs = yaml.safe_load(prometheus.configuration(Layout(tmp_path, 1, 2, 3, 4, 5)))

    (regrade, _) = jobs["scrape_configs"]
    expected = [f"127.0.0.1:{port}" for port in (9500, 9501, 9502)]
    assert regrade["static_configs"] == [{"targets": expected}]
