"""The deployment `watch-models`: `evaluate-model`, which evaluates what is new with one engine and ends."""

from pathlib import Path

import pytest
import yaml
from prefect.client.orchestration import SyncPrefectClient

from tests.command_line import regrade

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(300)]


def test_a_run_is_started_from_a_file_and_follows_what_is_new(
    client: SyncPrefectClient, tmp_path: Path
):
    given = {
        "model": f"{tmp_path}/run/checkpoint-*",
        "benchmarks": ["gsm8k"],
        "gate": {"baseline": "last-good-{model}", "max_drop": 1.0, "promote": True},
        "answers": str(tmp_path / "answers"),
    }
    config = tmp_path / "watch.yaml"
    config.write_text(yaml.safe_dump(given))

    started = regrade("trigger", "watch-models", "--config", config)

    assert started.code == 0, started.err
    deployment = client.read_deployment_by_name("evaluate-model/watch-models")
    (run,) = [r for r in client.read_flow_runs() if r.deployment_id == deployment.id]
    assert run.parameters == {"follow": 0, "only_new": True, **given}
    assert deployment.work_pool_name == "gpu"
    (schedule,) = deployment.schedules
    assert not schedule.active
    client.delete_flow_run(run.id)
