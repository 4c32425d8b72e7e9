from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from regrade.jobs import plans_of_job
from regrade.jobs.job import EvaluationJob
from regrade.jobs.plans_of_job import begin, engine_begun
from tests.engine_fixtures import FAST

Begun = Callable[..., list[bool]]


@pytest.fixture
def begun(demo_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Begun:
    """Begins a job, and returns for each worker that was started early whether it got the token of the Hub."""
    started: list[bool] = []
    monkeypatch.setattr(
        plans_of_job, "start_early", lambda log, *, hub_token: started.append(hub_token)
    )
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question": "1 + 1?", "answer": "2"}\n')
    dataset = {"name": "sums", "path": str(questions), "format": "completion", "scorer": "number"}

    def begin_with(**settings: object) -> list[bool]:
        given = {
            "model": str(demo_model),
            "answers": str(tmp_path / "answers"),
            "datasets": [dataset],
            "engine": FAST,
        }
        job = EvaluationJob.model_validate(given | settings)
        begin(job)
        with engine_begun(job, tmp_path / "log") as begins:
            assert begins is bool(started)
        return started

    return begin_with


def stored(state: str) -> Callable[..., object]:
    return lambda *_: SimpleNamespace(manifest=SimpleNamespace(state=state))


def test_the_engine_imports_vllm_while_the_flow_is_prepared(begun: Begun):
    assert begun() == [False]


def test_the_engine_has_the_token_of_the_hub_if_it_may_load_from_there(begun: Begun):
    assert begun(engine=FAST.model_copy(update={"extra": ("seed=1",)})) == [True]


def test_no_engine_begins_if_all_answers_are_stored(begun: Begun, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(plans_of_job, "find_set", stored("complete"))

    assert begun() == []


@pytest.mark.parametrize("settings", [{"reuse": {"fresh": True}}, {"reuse": {"heal": True}}])
def test_an_engine_begins_if_stored_answers_may_be_replaced(
    begun: Begun, monkeypatch: pytest.MonkeyPatch, settings: dict[str, object]
):
    monkeypatch.setattr(plans_of_job, "find_set", stored("complete"))

    assert begun(**settings) == [False]


def test_an_engine_begins_if_answers_are_missing(begun: Begun, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(plans_of_job, "find_set", stored("incomplete"))

    assert begun() == [False]


def test_no_engine_begins_where_engines_wait_for_each_other(
    begun: Begun, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("REGRADE_ENGINE_SLOTS", "1")

    assert begun() == []


def test_no_engine_begins_for_models_that_are_to_come(begun: Begun):
    assert begun(follow=60) == []
