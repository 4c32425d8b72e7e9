"""An engine between two models, and the gate of a model that came: what `evaluate --follow` decides without a flow run."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from flows.engine_session import EngineSession
from flows.evaluate_model import _all_of, _gate_of
from regrade.answers.aliases import move_alias
from regrade.answers.local import LocalRepository
from regrade.checkpoints.found import Found
from regrade.engines.vllm import VllmEngine
from regrade.jobs.job import EvaluationJob, make_job
from regrade.results.results import Evaluation
from regrade.settings import Between
from regrade.settings.errors import EngineError, SettingsError
from tests.flows.test_several_models import SwitchingTestEngine
from tests.stored import numbers, publish


def events_at_rest(demo_model: Path, between: Between) -> list[str]:
    """Return the events of a loaded engine between two models."""
    engine = SwitchingTestEngine(VllmEngine().resolve(str(demo_model)), (), False)
    with EngineSession() as session:
        session._engine = session.enter_context(engine)
        session.rest(between)
        events = engine.events[1:]
    assert engine.events.count("end") == 1
    return events


@pytest.mark.parametrize(
    ("between", "events"),
    [("stay", []), ("end", ["end"]), ("sleep", ["sleep"]), ("deep-sleep", ["deep sleep"])],
)
def test_between_two_models_the_engine_does_what_was_set(
    demo_model: Path, between: Between, events: list[str]
):
    assert events_at_rest(demo_model, between) == events


def test_an_engine_that_cannot_sleep_ends_instead(
    demo_model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    refusal = EngineError("The engine ended: copies of the model cannot sleep.")
    monkeypatch.setattr(SwitchingTestEngine, "sleep", Mock(side_effect=refusal))

    assert events_at_rest(demo_model, "sleep") == ["end"]
    assert "the engine cannot sleep and ends: The engine ended: copies of the model" in caplog.text


def test_a_session_without_an_engine_says_so():
    with EngineSession() as session, pytest.raises(RuntimeError, match="no engine is loaded"):
        _ = session.loaded


def job_of(**given: Any) -> EvaluationJob:
    dataset = {"name": "sums", "path": "sums.jsonl", "scorer": "number"}
    return make_job(EvaluationJob, {"model": "m", "datasets": (dataset,), **given})


LATER = [{"between": "end"}, {"only_new": True}, {"gate": {"baseline": "good-{model}"}}]


@pytest.mark.parametrize("given", LATER)
def test_what_is_for_models_that_come_later_is_refused_without_follow(given: dict[str, Any]):
    with pytest.raises(SettingsError, match="is for models that come later: set `follow`, too"):
        job_of(**given)


def test_the_panels_of_judges_of_all_models_are_in_the_result():
    one = Evaluation(answer_sets=(), repository="answers")
    done = [one.model_copy(update={"panels": (name,)}) for name in ("first", "second")]
    assert _all_of(done).panels == ("first", "second")


GATE = {"baseline": "last-good-{model}", "max_drop": 1}


def test_without_promote_there_is_no_verdict_before_the_alias_exists(tmp_path: Path):
    job = job_of(follow=0, answers=str(tmp_path), gate=GATE)
    found, repository = Found("Run", "run/checkpoint-1", "1"), LocalRepository(tmp_path)
    answers = publish(repository, numbers(0, 4))
    assert _gate_of(found, job, {}) is None

    move_alias(repository, "last-good-run", [answers])

    gate = _gate_of(found, job, {})
    assert gate is not None
    assert gate.baseline == "last-good-run"


def test_two_trainings_with_one_alias_are_refused(tmp_path: Path):
    job, aliases = job_of(follow=0, answers=str(tmp_path), gate=GATE), dict[str, str]()
    for model in ("run/checkpoint-1", "run/checkpoint-2"):
        _gate_of(Found("a b", model, "1"), job, aliases)
    with pytest.raises(SettingsError, match="'a b' and 'a-b' have the same alias 'last-good-a-b'"):
        _gate_of(Found("a-b", "other/checkpoint-1", "1"), job, aliases)
