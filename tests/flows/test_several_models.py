"""Several models in one evaluation: the engine goes on with the next one, and every row belongs to the model that gave it."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.evaluate_model import evaluate_model
from flows.generate_answers import generate_answers
from flows.sweep_settings import sweep_settings
from perf.workloads import checkpoint
from regrade.answers.local import LocalRepository
from regrade.answers.sets import list_sets
from regrade.checkpoints.watching import following
from regrade.engines.vllm import VllmEngine
from regrade.models.base import ResolvedModel
from regrade.records import Request
from regrade.records.computed import LoadedWeights
from regrade.results.display import NoDisplay
from regrade.settings.errors import EngineError, ModelError, OperationError, SettingsError
from regrade.tuning.sweep import measuring
from tests.limited_engine import LimitedTestEngine, questions

pytestmark = pytest.mark.prefect
ROWS = 5


class SwitchingTestEngine(LimitedTestEngine):
    """Answers with the name of the model that it has."""

    def __init__(self, model: ResolvedModel, requests: Sequence[Any], dies: bool) -> None:
        super().__init__(VllmEngine(), lambda *_: f"{self.model} #### 1", None)
        self.model, self.planned, self._dies = model.identity.name, requests, dies
        self.events = [f"open {self.model}"]

    def read_ahead(self, model: ResolvedModel) -> None:
        self.events.append(f"ahead {model.identity.name}")

    def switch(self, model: ResolvedModel, requests: Sequence[Iterable[Request]]) -> None:
        if self._dies:
            raise EngineError("The engine ended.", "", True)
        self.model = model.identity.name
        self.info = replace(self.info, weights=LoadedWeights(memory="abc", replaced=True))
        self.events.append(f"switch {self.model}, {len(requests)} streams")


class Evaluated:
    def __init__(self, folder: Path, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.engines: list[SwitchingTestEngine] = []
        self.dying = 0
        self._folder, self._server = folder, server
        self._questions = questions(folder, ROWS)

        def opened(
            _: VllmEngine, model: ResolvedModel, *, requests: Sequence[Any], **__: Any
        ) -> SwitchingTestEngine:
            self.engines.append(
                SwitchingTestEngine(model, requests, len(self.engines) < self.dying)
            )
            return self.engines[-1]

        monkeypatch.setattr(VllmEngine, "open", opened)

    def run(self, model: str, *more: str, flow: Any = generate_answers, **parameters: Any) -> Any:
        with temporary_settings({PREFECT_API_URL: self._server}):
            return flow(
                model=model,
                **({"more_models": more} if more else {}),
                **parameters,
                datasets=({"name": "mine", "path": str(self._questions), "scorer": "number"},),
                answers=str(self._folder / "answers"),
                return_state=True,
            )

    @property
    def answers(self) -> dict[str, set[str]]:
        """Texts of the answers by model."""
        repository = LocalRepository(self._folder / "answers")
        found = {}
        for stored in list_sets(repository, repository.head() or ""):
            rows = [row for batch in stored.batches(["text"]) for row in batch.to_pylist()]
            assert (len(rows), stored.manifest.state) == (ROWS, "complete")
            found[stored.manifest.specification.model.name] = {row["text"] for row in rows}
        return found


@pytest.fixture
def evaluated(
    prefect_server: str, spool_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Evaluated:
    return Evaluated(tmp_path, prefect_server, monkeypatch)


@pytest.fixture
def training(demo_model: Path, tmp_path: Path) -> Path:
    """A training with three checkpoints, and a link to the last."""
    for step in (100, 200, 1000):
        checkpoint(demo_model, tmp_path / "run" / f"checkpoint-{step}", seed=step)
    (tmp_path / "run" / "checkpoint-last").symlink_to(tmp_path / "run" / "checkpoint-1000")
    return tmp_path / "run"


def test_checkpoints_are_answered_by_one_engine_in_the_order_of_their_steps(
    evaluated: Evaluated, training: Path
):
    evaluated.run(f"{training}/checkpoint-*")

    names = [f"run/checkpoint-{step}" for step in (100, 200, 1000)]
    (engine,) = evaluated.engines
    assert engine.events == [
        f"open {names[0]}",
        f"ahead {names[1]}",
        f"switch {names[1]}, 1 streams",
        f"ahead {names[2]}",
        f"switch {names[2]}, 1 streams",
    ]
    assert len(engine.planned) == 1  # all models are asked the same
    assert evaluated.answers == {name: {f"{name} #### 1"} for name in names}


def test_an_engine_that_ends_at_a_switch_is_replaced_and_only_missing_answers_are_asked(
    evaluated: Evaluated, training: Path
):
    evaluated.dying = 1
    evaluated.run(str(training / "checkpoint-100"), str(training / "checkpoint-200"))

    names = [f"run/checkpoint-{step}" for step in (100, 200)]
    first, second = evaluated.engines
    assert (len(first.asked), len(second.asked)) == (ROWS, ROWS)
    assert second.events == [f"open {names[1]}"]
    assert evaluated.answers == {name: {f"{name} #### 1"} for name in names}


def test_models_that_are_complete_are_passed_over(evaluated: Evaluated, training: Path):
    evaluated.run(str(training / "checkpoint-200"))
    evaluated.run(f"{training}/checkpoint-*")

    assert [event for engine in evaluated.engines for event in engine.events] == [
        "open run/checkpoint-200",
        "open run/checkpoint-100",
        "ahead run/checkpoint-1000",
        "switch run/checkpoint-1000, 1 streams",
    ]
    assert len(evaluated.answers) == 3


def test_an_evaluation_scores_each_model_and_tracks_it_in_a_run_of_its_own(
    evaluated: Evaluated, training: Path
):
    state = evaluated.run(f"{training}/checkpoint-*", flow=evaluate_model)
    evaluation = state.result()

    names = [f"run/checkpoint-{step}" for step in (100, 200, 1000)]
    assert [answers.model for answers in evaluation.answer_sets] == names
    assert all(answers.scores[0].metrics["accuracy"] == 1.0 for answers in evaluation.answer_sets)
    assert len({answers.mlflow_run_id for answers in evaluation.answer_sets}) == 3
    assert len(evaluated.engines) == 1


def test_a_sweep_over_models_and_sampling_keeps_its_engine(
    evaluated: Evaluated, training: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(measuring, "STEADY_SECONDS", 0.0)
    models = [str(training / f"checkpoint-{step}") for step in (100, 200)]
    axes = (
        {"setting": "sampling.temperature", "values": ("0", "0.7")},
        {"setting": "model", "values": models},
    )
    swept = evaluated.run(models[0], flow=sweep_settings, axes=axes).result()

    (engine,) = evaluated.engines
    assert engine.events == ["open run/checkpoint-100", "switch run/checkpoint-200, 2 streams"]
    assert (swept.engine_starts, swept.failed) == (1, [])
    assert [point.benchmarks[0].rows for point in swept.points] == [ROWS] * 4
    assert len(engine.asked) == 4 * ROWS


def test_a_model_that_is_asked_otherwise_gets_an_engine_of_its_own(
    evaluated: Evaluated, training: Path
):
    """Its context may be too short for the requests of the other."""
    models = [training / f"checkpoint-{step}" for step in (100, 200)]
    for model, tokens in zip(models, (40, 60), strict=True):
        settings = {"temperature": 0.5, "do_sample": True, "max_new_tokens": tokens}
        (model / "generation_config.json").write_text(json.dumps(settings))
    evaluated.run(*map(str, models), sampling={"defaults": "model"})

    assert [engine.events[0] for engine in evaluated.engines] == [
        f"open run/checkpoint-{step}" for step in (100, 200)
    ]


def test_models_that_come_later_are_evaluated_in_the_same_engine_and_one_that_fails_stops_no_other(
    evaluated: Evaluated, training: Path, demo_model: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(following, "SETTLE", 0.0)
    monkeypatch.setattr(following, "POLL", 0.05)
    began: list[str] = []
    monkeypatch.setattr(NoDisplay, "began", lambda _, model: began.append(Path(model).name))
    ended: list[str | None] = []

    def end(_: NoDisplay, model: str, error: str | None) -> None:
        ended.append(error)
        if len(ended) == 3:  # all are done
            checkpoint(demo_model, training / "checkpoint-2000", seed=2000)

    monkeypatch.setattr(NoDisplay, "ended", end)
    switch = SwitchingTestEngine.switch

    def refuse(self: SwitchingTestEngine, model: ResolvedModel, requests: Any) -> None:
        if model.identity.name == "run/checkpoint-200":
            raise SettingsError("The weights cannot be read.")
        switch(self, model, requests)

    monkeypatch.setattr(SwitchingTestEngine, "switch", refuse)
    state = evaluated.run(f"{training}/checkpoint-*", flow=evaluate_model, follow=1.0)

    assert [engine.events for engine in evaluated.engines] == [
        ["open run/checkpoint-100"],
        ["open run/checkpoint-1000", "switch run/checkpoint-2000, 1 streams"],
    ]
    assert began == [f"checkpoint-{step}" for step in (100, 200, 1000, 2000)]
    assert ended == [None, "The weights cannot be read.", None, None]
    with pytest.raises(OperationError, match="1 of 4 models failed: .*checkpoint-200"):
        state.result()
    assert len(evaluated.answers) == 3


def test_an_evaluation_to_which_no_model_comes_says_so(evaluated: Evaluated, tmp_path: Path):
    state = evaluated.run(f"{tmp_path}/checkpoint-*", flow=evaluate_model, follow=0.0)
    with pytest.raises(ModelError, match="no complete model came within 0 s"):
        state.result()
