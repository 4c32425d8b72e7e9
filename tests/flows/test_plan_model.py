"""`plan-model` with a real Prefect server; without vLLM, so that it is quick."""

import json
from pathlib import Path

import pytest
from prefect.client.orchestration import get_client
from prefect.logging.handlers import APILogHandler
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.plan_model import plan_model
from regrade.settings.errors import SettingsError
from regrade.tuning.plan.plan import MemoryPlan
from tests.tuning.plan.engine_without_vllm import engine_without_vllm
from tests.tuning.plan.test_estimate import QWEN3_8B

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(300)]


def test_the_plan_is_on_the_page_of_the_run(
    prefect_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("REGRADE_ENGINE_PYTHON", engine_without_vllm(tmp_path))
    monkeypatch.setenv("REGRADE_LOGS", str(tmp_path / "logs"))
    model = tmp_path / "qwen"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(QWEN3_8B))
    with (
        temporary_settings({PREFECT_API_URL: prefect_server}),
        get_client(sync_client=True) as client,
    ):
        state = plan_model(
            str(model),
            gpus=8,
            gpu="h100",
            max_model_len=4096,
            answers=str(tmp_path / "answers"),
            return_state=True,
        )
        plan = state.result()
        run = client.read_flow_run(state.state_details.flow_run_id)
        pages = {
            artifact.key: artifact
            for artifact in client.read_artifacts()
            if artifact.flow_run_id == run.id
        }
        APILogHandler().flush()

    assert isinstance(plan, MemoryPlan)
    assert run.name == f"{tmp_path.name}/qwen on 8 x h100"
    assert "begin with TP 2 x PP 1 x DP 4" in pages["plan"].description
    assert "| TP 2 x PP 1 x DP 4 |" in pages["plan"].data
    assert "An estimate by a formula" in pages["plan"].data
    document = pages["plan-report"].data.removeprefix("```json\n").removesuffix("\n```\n")
    assert MemoryPlan.model_validate_json(document) == plan


def test_a_contradiction_fails_the_run_with_a_sentence(prefect_server: str, tmp_path: Path):
    with (
        temporary_settings({PREFECT_API_URL: prefect_server}),
        pytest.raises(SettingsError, match="not both"),
    ):
        plan_model("org/model", gpu="h100", gpu_memory="80GiB")
        APILogHandler().flush()
