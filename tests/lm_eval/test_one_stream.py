"""Tasks of the harness and other benchmarks in one run: a single stream of requests for one engine. Real flow, server and repository."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    ArtifactFilterType,
)
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.generate_answers import generate_answers
from regrade.answers.local import LocalRepository
from regrade.answers.sets import list_sets
from regrade.engines.vllm import VllmEngine
from regrade.records import Completion, Request
from tests.command_line import DEMO
from tests.limited_engine import LimitedTestEngine, questions
from tests.lm_eval.stored import data_folder

pytestmark = pytest.mark.timeout(300)
TASKS = {
    "lm_eval:gsm8k": ("openai/gsm8k", "main"),
    "lm_eval:arc_easy": ("allenai/ai2_arc", "ARC-Easy"),
}
"""One that generates, and one that ranks."""


class StreamingEngine(LimitedTestEngine):
    """Counts its streams of requests; it ranks, too."""

    streams = 0

    def generate(self, requests: Iterable[Request]) -> Iterator[list[Completion]]:
        self.streams += 1
        for request in requests:
            ranks = [-1.0 - place for place in range(len(request.labels))]
            ranked: dict[str, Any] = {
                "label_logprobs": tuple(ranks),
                "label_is_greedy": (False,) * len(ranks),
            }
            said = {"text": "#### 1", "finish_reason": "stop", "completion_tokens": 4}
            yield [Completion(request.key, str(request.prompt), **(ranked if ranks else said))]


def test_tasks_and_a_benchmark_share_one_stream_and_each_shows_a_progress_of_its_own(
    indexed: None,
    prefect_server: str,
    spool_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engines: list[StreamingEngine] = []

    def opened(settings: VllmEngine, *_: object, **__: object) -> StreamingEngine:
        engines.append(StreamingEngine(settings, lambda *_: "", None))
        return engines[-1]

    monkeypatch.setattr(VllmEngine, "open", opened)
    sources: Any = tuple(
        {"benchmark": task, "path": str(data_folder(tmp_path / task, path, (name,)))}
        for task, (path, name) in TASKS.items()
    )
    dataset: Any = {"name": "mine", "path": str(questions(tmp_path, 3)), "scorer": "number"}
    with (
        temporary_settings({PREFECT_API_URL: prefect_server}),
        get_client(sync_client=True) as client,
    ):
        state = generate_answers(
            str(DEMO / "regrade-demo"),
            lm_eval={"tasks": [task.removeprefix("lm_eval:") for task in TASKS]},
            sources=sources,
            datasets=(dataset,),
            answers=str(tmp_path / "answers"),
            return_state=True,
        )
        shown = client.read_artifacts(
            artifact_filter=ArtifactFilter(
                flow_run_id=ArtifactFilterFlowRunId(any_=[state.state_details.flow_run_id]),
                type=ArtifactFilterType(any_=["progress"]),
            )
        )

    assert [engine.streams for engine in engines] == [1]
    repository = LocalRepository(tmp_path / "answers")
    stored = [found.manifest for found in list_sets(repository, repository.head() or "")]
    assert {m.specification.benchmark.name for m in stored} == {*TASKS, "mine"}
    assert {m.state for m in stored} == {"complete"}
    assert [session.sets for m in stored for session in m.sessions] == [3, 3, 3]
    progress = {artifact.key: artifact.data for artifact in shown}
    assert len(shown) == len(progress) == 3
    assert set(progress.values()) == {100.0}
    for m in stored:
        assert any(str(key).endswith(m.answer_set_id) for key in progress)
