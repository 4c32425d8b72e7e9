"""`generate-answers`: what the page of its run says. Real flow, Prefect server, spool and repository."""

import json
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.generate_answers import generate_answers
from regrade.engines.vllm import VllmEngine
from regrade.orchestration.artifacts import METRICS_KEY, RESULT_KEY, newest_artifact
from tests.command_line import DEMO
from tests.flows.test_fresh_engine import MortalEngine

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(300)]


@pytest.mark.usefixtures("spool_home")
def test_a_run_is_named_by_its_answers_and_its_page_says_how_to_score_them(
    prefect_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(VllmEngine, "open", lambda *_, **__: MortalEngine(4))
    data = tmp_path / "questions.jsonl"
    data.write_text(
        "".join(json.dumps({"question": f"{n}?", "answer": "1"}) + "\n" for n in (1, 2, 3))
    )
    answers = str(tmp_path / "answers")
    dataset: Any = {"name": "sums", "path": str(data), "scorer": "number"}

    with temporary_settings({PREFECT_API_URL: prefect_server}):
        state = generate_answers(
            str(DEMO / "regrade-demo"), datasets=(dataset,), answers=answers, return_state=True
        )
        flow_run_id = state.state_details.flow_run_id
        assert flow_run_id is not None
        with get_client(sync_client=True) as client:
            name = client.read_flow_run(flow_run_id).name
            page = str(newest_artifact(client, flow_run_id, RESULT_KEY))
            metrics = newest_artifact(client, flow_run_id, METRICS_KEY)

    (result,) = state.result().answer_sets
    assert name == state.message == "regrade-demo: sums 3 of 3 answers, not scored"
    assert f"| regrade-demo | sums | 3 of 3 | 3 | 0 | {result.answer_set_id} |" in page
    assert f"regrade score --answers {answers} --answer-set {result.answer_set_id}" in page
    assert "score them, without a model" in page
    assert "Accuracy" not in page
    assert "image/png" not in page
    assert metrics is None
