"""`plan-model` with a real Prefect server; the plan itself is made, so that it is quick."""

from pathlib import Path

import pytest
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId

from flows.plan_model import plan_model
from regrade.tuning.plan.plan import MemoryPlan
from regrade.tuning.plan.request import PlanRequest
from tests.tuning.plan.made import FITTING, LACKING, plan

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(300)]


def test_the_plan_is_on_the_page_of_the_run(
    prefect_client: SyncPrefectClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: list[PlanRequest] = []

    def make(request: PlanRequest, **_: object) -> MemoryPlan:
        asked.append(request)
        return plan(FITTING, LACKING)

    monkeypatch.setattr("flows.plan_model.make_memory_plan", make)
    model = tmp_path / "qwen"
    state = plan_model(
        str(model),
        gpus=8,
        gpu="h100",
        max_model_len=4096,
        answers=str(tmp_path / "answers"),
        return_state=True,
    )
    made = state.result()
    run = prefect_client.read_flow_run(state.state_details.flow_run_id)
    pages = {
        artifact.key: artifact
        for artifact in prefect_client.read_artifacts(
            artifact_filter=ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run.id]))
        )
    }

    assert made == plan(FITTING, LACKING)
    assert (asked[0].gpus, asked[0].gpu, asked[0].max_model_len) == (8, "h100", 4096)
    assert run.name == f"{tmp_path.name}/qwen on 8 x h100"
    assert "begin with TP 2 x PP 1 x DP 4" in pages["plan"].description
    assert "| TP 2 x PP 1 x DP 4 |" in pages["plan"].data
    document = pages["plan-report"].data.removeprefix("```json\n").removesuffix("\n```\n")
    assert MemoryPlan.model_validate_json(document) == made
