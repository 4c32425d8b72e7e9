"""`generate-answers`: what the page of its run says. Real flow, Prefect server, spool and repository."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    ArtifactFilterType,
)
from prefect.client.schemas.objects import State

from flows.generate_answers import generate_answers
from regrade.engines.vllm import VllmEngine
from regrade.orchestration.artifacts import METRICS_KEY, RESULT_KEY, newest_artifact
from tests.flows.test_fresh_engine import MortalEngine
from tests.limited_engine import demo_asked

pytestmark = [pytest.mark.usefixtures("spool_home"), pytest.mark.prefect, pytest.mark.timeout(300)]


def run(engine: MortalEngine, folder: Path, patch: pytest.MonkeyPatch) -> tuple[State[Any], UUID]:
    """Ask three questions; return the final state of the run, and its id."""
    patch.setattr(VllmEngine, "open", lambda *_, **__: engine)
    state = generate_answers(**demo_asked(folder, 3, "sums"), return_state=True)
    flow_run_id = state.state_details.flow_run_id
    assert flow_run_id is not None
    return state, flow_run_id


def test_a_run_is_named_by_its_answers_which_its_page_lists(
    prefect_client: SyncPrefectClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    state, flow_run_id = run(MortalEngine(4), tmp_path, monkeypatch)
    name = prefect_client.read_flow_run(flow_run_id).name
    page = str(newest_artifact(prefect_client, flow_run_id, RESULT_KEY))

    (result,) = state.result().answer_sets
    assert name == state.message == "regrade-demo: sums 3 of 3 answers"
    assert f"| regrade-demo | sums | 3 of 3 | 3 | 0 | {result.answer_set_id} |" in page
    assert newest_artifact(prefect_client, flow_run_id, METRICS_KEY) is None


def test_the_progress_of_a_run_that_was_stopped_says_so_and_what_to_do(
    prefect_client: SyncPrefectClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class Stopped(MortalEngine):
        def generate(self, requests: Any) -> Any:
            for number, batch in enumerate(super().generate(requests)):
                if number == 2:
                    raise KeyboardInterrupt  # as on SIGTERM, with which Prefect cancels a run
                yield batch

    with pytest.raises(KeyboardInterrupt):
        run(Stopped(4), tmp_path, monkeypatch)

    (newest, *_) = prefect_client.read_flow_runs(limit=1, sort="EXPECTED_START_TIME_DESC")  # type: ignore[arg-type]
    (progress,) = prefect_client.read_artifacts(
        artifact_filter=ArtifactFilter(
            flow_run_id=ArtifactFilterFlowRunId(any_=[newest.id]),
            type=ArtifactFilterType(any_=["progress"]),
        )
    )
    assert progress.description == (
        "2 of 3 answers, stopped: they are kept. Submit the same form again for the rest: sums · regrade-demo"
    )
    assert progress.data == pytest.approx(200 / 3)
