"""Several models in one evaluation: the engine goes on with the next one, and every row belongs to the model that gave it."""

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any
from unittest.mock import Mock

import pytest
from prefect import State
from prefect.client.orchestration import SyncPrefectClient

from flows import generating
from flows.evaluate_model import evaluate_model
from flows.generate_answers import generate_answers
from flows.sweep_settings import sweep_settings
from perf.workloads import checkpoint
from regrade.answers.aliases import aliased_sets, read_alias
from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from regrade.answers.spool import SpoolBusyError
from regrade.checkpoints import following
from regrade.engines.vllm import VllmEngine
from regrade.jobs.time_spent import TimeSpent
from regrade.models.base import ResolvedModel
from regrade.records import Completion, Request
from regrade.records.computed import LoadedWeights
from regrade.results.display import NoDisplay
from regrade.settings.errors import EngineError, ModelError, OperationError, SettingsError
from regrade.tuning.sweep import measuring
from tests.limited_engine import LimitedTestEngine, questions
from tests.processes.trees import wait_until
from tests.stored import sets_in

pytestmark = pytest.mark.prefect
ROWS = 5


class SwitchingTestEngine(LimitedTestEngine):
    """Answers with the name of the model that it has."""

    def __init__(self, model: ResolvedModel, requests: Sequence[Any], dies: bool) -> None:
        super().__init__(VllmEngine(), lambda *_: self.answer(), None)
        self.info = replace(self.info, load_seconds=0.0)  # it loads nothing, and more cannot pass
        self._halts = (Path(model.path) / "halts").exists()
        self.model, self.planned, self._dies = model.identity.name, requests, dies
        self.events = [f"open {self.model}"]

    def answer(self) -> str:
        """The answer to each question."""
        return f"{self.model} #### 1"

    def __exit__(self, *_: object) -> None:
        self.events.append("end")

    def generate(self, requests: Iterable[Request]) -> Iterator[list[Completion]]:
        for request in requests:
            if self._halts and len(self.asked) > ROWS:
                raise EngineError("The engine ended.", "", False)
            yield from super().generate([request])

    def sleep(self, *, deep: bool) -> None:
        self.events.append("deep sleep" if deep else "sleep")

    def read_ahead(self, model: ResolvedModel) -> None:
        self.events.append(f"ahead {model.identity.name}")

    def switch(self, model: ResolvedModel, requests: Sequence[Iterable[Request]]) -> None:
        refuse_broken(model)
        if self._dies:
            raise EngineError("The engine ended.", "", True)
        self.model = model.identity.name
        self.info = replace(self.info, weights=LoadedWeights(memory="abc", replaced=True))
        self.events.append(f"switch {self.model}, {len(requests)} streams")


def refuse_broken(model: ResolvedModel) -> None:
    """Raise the error of an engine that cannot load a model, whose folder says so."""
    if (Path(model.path) / "broken").exists():
        problem = (Path(model.path) / "broken").read_text()
        raise EngineError(f"The engine did not start: {problem}.", "", False)


class Evaluated:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.engines: list[SwitchingTestEngine] = []
        self.dying = 0
        self._folder = folder
        self._questions = questions(folder, ROWS)

        def opened(
            _: VllmEngine, model: ResolvedModel, *, requests: Sequence[Any], **__: Any
        ) -> SwitchingTestEngine:
            refuse_broken(model)
            self.engines.append(
                SwitchingTestEngine(model, requests, len(self.engines) < self.dying)
            )
            return self.engines[-1]

        monkeypatch.setattr(VllmEngine, "open", opened)
        monkeypatch.setattr(following, "SETTLE", 0.0)
        monkeypatch.setattr(following, "POLL", 0.05)
        monkeypatch.setenv("REGRADE_CACHE", str(folder / "cache"))  # without notes of earlier runs

    def run(
        self,
        model: str,
        *more: str,
        flow: Any = generate_answers,
        names: Sequence[str] = ("mine",),
        **parameters: Any,
    ) -> Any:
        data = {"path": str(self._questions), "scorer": "number"}
        return flow(
            model=model,
            **({"more_models": more} if more else {}),
            **parameters,
            datasets=tuple({"name": name, **data} for name in names),
            answers=str(self._folder / "answers"),
            return_state=True,
        )

    def follow(self, training: Path, **parameters: Any) -> State[Any]:
        given = {"follow": 0.0, **parameters}
        return self.run(f"{training}/checkpoint-*", flow=evaluate_model, **given)

    @property
    def repository(self) -> Path:
        return self._folder / "answers"

    @property
    def stored(self) -> list[AnswerSet]:
        return sets_in(self.repository)

    @property
    def answers(self) -> dict[str, set[str]]:
        """Texts of the answers by model."""
        found = {}
        for stored in self.stored:
            rows = [row for batch in stored.batches(["text"]) for row in batch.to_pylist()]
            assert (len(rows), stored.manifest.state) == (ROWS, "complete")
            found[stored.manifest.specification.model.name] = {row["text"] for row in rows}
        return found


@pytest.fixture
def evaluated(
    flows_on_server: str, spool_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Evaluated:
    return Evaluated(tmp_path, monkeypatch)


@pytest.fixture
def training(demo_model: Path, tmp_path: Path) -> Path:
    """A training with three checkpoints, and a link to the last."""
    for step in (100, 200, 1000):
        checkpoint(demo_model, tmp_path / "run" / f"checkpoint-{step}", seed=step)
    (tmp_path / "run" / "checkpoint-last").symlink_to(tmp_path / "run" / "checkpoint-1000")
    return tmp_path / "run"


def test_checkpoints_are_answered_by_one_engine_in_the_order_of_their_steps_and_tracked_apart(
    evaluated: Evaluated, training: Path
):
    evaluation = evaluated.run(f"{training}/checkpoint-*", flow=evaluate_model).result()

    names = [f"run/checkpoint-{step}" for step in (100, 200, 1000)]
    (engine,) = evaluated.engines
    assert engine.events == [
        f"open {names[0]}",
        f"ahead {names[1]}",
        f"switch {names[1]}, 1 streams",
        f"ahead {names[2]}",
        f"switch {names[2]}, 1 streams",
        "end",
    ]
    assert len(engine.planned) == 1  # all models are asked the same
    loaded = [stored.manifest.sessions[0].weights for stored in evaluated.stored]
    assert [weights is not None and weights.replaced for weights in loaded] == [False, True, True]
    assert evaluated.answers == {name: {f"{name} #### 1"} for name in names}
    assert [answers.model for answers in evaluation.answer_sets] == names
    assert all(answers.scores[0].metrics["accuracy"] == 1.0 for answers in evaluation.answer_sets)
    assert len({answers.mlflow_run_id for answers in evaluation.answer_sets}) == 3


def test_an_engine_that_ends_at_a_switch_is_replaced_for_each_model_and_only_missing_answers_are_asked(
    evaluated: Evaluated, training: Path
):
    evaluated.dying = 2
    evaluated.run(f"{training}/checkpoint-*")

    names = [f"run/checkpoint-{step}" for step in (100, 200, 1000)]
    assert [len(engine.asked) for engine in evaluated.engines] == [ROWS, ROWS, ROWS]
    assert evaluated.engines[2].events == [f"open {names[2]}", "end"]
    assert evaluated.answers == {name: {f"{name} #### 1"} for name in names}


def test_a_model_that_fails_stops_no_other_and_is_named_at_the_end(
    evaluated: Evaluated, training: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO, logger="regrade")
    (training / "checkpoint-200" / "broken").write_text("a tensor has another shape")
    state = evaluated.run(f"{training}/checkpoint-*", flow=evaluate_model)

    with pytest.raises(OperationError, match="^1 of 3 models failed: run/checkpoint-200. The eng"):
        state.result()
    assert [*evaluated.answers] == ["run/checkpoint-100", "run/checkpoint-1000"]
    assert all(stored.scores() for stored in evaluated.stored)
    assert "run/checkpoint-200: The engine did not start: a tensor has" in caplog.text
    assert "run/checkpoint-1000 is ready" in caplog.text
    assert len(evaluated.engines) == 2


def test_models_after_two_that_fail_alike_in_a_row_are_not_tried(
    evaluated: Evaluated, training: Path, caplog: pytest.LogCaptureFixture
):
    for step in (2000, 3000):
        checkpoint(training / "checkpoint-100", training / f"checkpoint-{step}", seed=step)
    for step in (100, 1000, 2000):  # a good one is between the first two
        (training / f"checkpoint-{step}" / "broken").write_text("no room")
    state = evaluated.run(f"{training}/checkpoint-*")

    with pytest.raises(OperationError, match="^4 of 5 models failed"):
        state.result()
    assert [*evaluated.answers] == ["run/checkpoint-200"]
    assert "not tried, as they would fail alike: mine · run/checkpoint-3000" in caplog.text


def test_models_that_are_complete_are_scored_beside_one_that_fails(
    evaluated: Evaluated, training: Path
):
    evaluated.run(str(training / "checkpoint-100"))
    assert not any(stored.scores() for stored in evaluated.stored)
    (training / "checkpoint-200" / "broken").write_text("no room")
    models = [str(training / f"checkpoint-{step}") for step in (100, 200)]
    state = evaluated.run(*models, flow=evaluate_model)

    with pytest.raises(OperationError, match="^1 of 2 models failed: run/checkpoint-200"):
        state.result()
    assert [bool(stored.scores()) for stored in evaluated.stored] == [True]


def test_a_benchmark_that_is_complete_is_scored_if_its_model_cannot_be_loaded_for_another(
    evaluated: Evaluated, training: Path
):
    model = training / "checkpoint-100"
    evaluated.run(str(model))
    (model / "broken").write_text("no room")
    state = evaluated.run(str(model), flow=evaluate_model, names=("mine", "other"))

    with pytest.raises(EngineError, match="no room"):
        state.result()
    assert [bool(stored.scores()) for stored in evaluated.stored] == [True]


@pytest.mark.parametrize("models", [1, 2])
def test_what_is_complete_is_scored_and_the_benchmark_at_which_its_model_failed_is_named(
    evaluated: Evaluated, training: Path, models: int, caplog: pytest.LogCaptureFixture
):
    (training / "checkpoint-100" / "halts").touch()
    paths = [str(training / f"checkpoint-{step}") for step in (100, 200)]
    names = ("mine", "other")
    state = evaluated.run(*paths[:models], flow=evaluate_model, names=names)

    if models == 1:  # its own error, which may be one of the settings
        with pytest.raises(EngineError, match="^The engine ended.$"):
            state.result()
    else:
        reason = r"^1 of 2 models failed: run/checkpoint-100 \(other\). The engine ended.$"
        with pytest.raises(OperationError, match=reason):
            state.result()
    assert "other · run/checkpoint-100: The engine ended." in caplog.text
    scored = {
        (found.model.name, found.benchmark.name): bool(stored.scores())
        for stored in evaluated.stored
        for found in (stored.manifest.specification,)
    }
    first, second = "run/checkpoint-100", "run/checkpoint-200"
    expected = {(first, "mine"): True, (first, "other"): False}
    more = {(second, "mine"): True, (second, "other"): True}
    assert scored == expected | (more if models == 2 else {})


def test_models_that_are_complete_are_passed_over(evaluated: Evaluated, training: Path):
    evaluated.run(str(training / "checkpoint-200"))
    evaluated.run(f"{training}/checkpoint-*")

    assert [event for engine in evaluated.engines for event in engine.events] == [
        "open run/checkpoint-200",
        "end",
        "open run/checkpoint-100",
        "ahead run/checkpoint-1000",
        "switch run/checkpoint-1000, 1 streams",
        "end",
    ]
    assert len(evaluated.answers) == 3


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
    assert engine.events == [
        "open run/checkpoint-100",
        "switch run/checkpoint-200, 2 streams",
        "end",
    ]
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


def without_reading_ahead(engine: SwitchingTestEngine) -> list[str]:
    return [event for event in engine.events if not event.startswith("ahead")]


def shorten(checkpoint: Path) -> bytes:
    """Cut the end of a checkpoint's weights, and return them whole."""
    weights = checkpoint / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-100])
    return whole


def test_models_that_come_later_get_the_same_engine_which_rests_meanwhile_and_those_that_fail_are_told(
    evaluated: Evaluated,
    training: Path,
    prefect_client: SyncPrefectClient,
    monkeypatch: pytest.MonkeyPatch,
):
    """The engine leaves the GPU before a result is told, if no model waits."""
    monkeypatch.setattr(VllmEngine, "able_to_sleep", lambda self: self)
    (training / "checkpoint-200" / "broken").write_text("a tensor has another shape")
    shorten(checkpoint(training / "checkpoint-100", training / "checkpoint-3000", seed=3000))
    told: list[tuple[str, str, str | None]] = []

    def came(_: NoDisplay, model: str, error: str | None = None, *, ended: bool) -> None:
        event = without_reading_ahead(evaluated.engines[-1])[-1] if ended else "begins"
        told.append((Path(model).name, event, error))
        if len(told) == 6:  # all three are done
            checkpoint(training / "checkpoint-100", training / "checkpoint-2000", seed=2000)

    monkeypatch.setattr(NoDisplay, "came", came)
    state = evaluated.follow(training, follow=1.0, between="deep-sleep")

    reason = "The engine did not start: a tensor has another shape."
    ends = [("open run/checkpoint-100", None), ("end", reason), *[("deep sleep", None)] * 2]
    assert told == [
        (f"checkpoint-{step}", *event)
        for step, end in zip((100, 200, 1000, 2000), ends, strict=True)
        for event in (("begins", None), end)
    ]
    second = ["deep sleep", "switch run/checkpoint-2000, 1 streams", "deep sleep", "end"]
    assert [without_reading_ahead(engine) for engine in evaluated.engines] == [
        ["open run/checkpoint-100", "end"],
        ["open run/checkpoint-1000", *second],
    ]
    failed = f"^2 of 5 models failed: .*checkpoint-200, .*checkpoint-3000. The first: {reason}"
    with pytest.raises(OperationError, match=failed):
        state.result()
    assert len(evaluated.answers) == 3
    run = prefect_client.read_flow_run(state.state_details.flow_run_id)
    assert [f"checkpoint-{step}:" in run.name for step in (100, 1000, 2000)] == [True] * 3


def test_an_evaluation_to_which_no_complete_model_comes_says_so(
    evaluated: Evaluated, demo_model: Path, tmp_path: Path
):
    with pytest.raises(ModelError, match="no complete model came within 0 s"):
        evaluated.follow(tmp_path).result()
    shorten(checkpoint(demo_model, tmp_path / "checkpoint-1", seed=1))
    with pytest.raises(
        OperationError, match="^1 of 1 models failed: .*-1. The first: 'model.safet"
    ):
        evaluated.follow(tmp_path).result()
    state = evaluated.follow(tmp_path, only_new=True)
    assert (state.type, state.message) == ("COMPLETED", "no new models"), "the next run finds it"


def test_a_checkpoint_that_comes_while_another_is_answered_is_read_ahead_once(
    evaluated: Evaluated, training: Path, monkeypatch: pytest.MonkeyPatch
):
    answer, name = SwitchingTestEngine.answer, "run/checkpoint-2000"
    # Whole from its first moment: one that changes is announced again.
    made = checkpoint(training / "checkpoint-100", training.parent / "made", seed=2000)

    def slow(self: SwitchingTestEngine) -> str:
        if self.model == "run/checkpoint-1000" and made.exists():
            made.rename(training / "checkpoint-2000")
            wait_until(lambda: f"ahead {name}" in self.events)
        return answer(self)

    monkeypatch.setattr(SwitchingTestEngine, "answer", slow)
    evaluated.follow(training).result()

    (engine,) = evaluated.engines
    assert engine.events[-3:] == [f"ahead {name}", f"switch {name}, 1 streams", "end"]
    assert engine.events.count(f"ahead {name}") == 1
    assert len(evaluated.answers) == 4


def test_a_cpu_that_cannot_sleep_starts_nothing(evaluated: Evaluated, training: Path):
    with pytest.raises(SettingsError, match="vLLM cannot sleep on a CPU: use `between=stay`"):
        evaluated.follow(training, between="sleep").result()
    assert not evaluated.engines


def test_a_run_on_a_schedule_evaluates_what_is_new_with_one_engine_and_ends(
    evaluated: Evaluated, training: Path, monkeypatch: pytest.MonkeyPatch
):
    """A revision that is not complete, or that another run generates, is left to the next run."""
    last = checkpoint(training / "checkpoint-100", training / "checkpoint-2000", seed=2000)
    whole = shorten(last)
    spent: list[TimeSpent | None] = []
    seconds: list[float] = []

    def look() -> list[str]:
        begun = monotonic()
        found = evaluated.follow(training, only_new=True).result()
        seconds.append(monotonic() - begun)
        spent.append(found.time_spent)
        return [answers.model for answers in found.answer_sets]

    with monkeypatch.context() as patch, pytest.raises(OperationError, match="3 of 3 models fai"):
        busy = SpoolBusyError("spool", "process 1")
        patch.setattr(generating, "_open_spool", Mock(side_effect=busy))
        look()
    assert look() == [f"run/checkpoint-{step}" for step in (100, 200, 1000)]
    assert len(evaluated.engines) == 1
    assert look() == []
    (last / "model.safetensors").write_bytes(whole)
    assert look() == ["run/checkpoint-2000"]
    assert len(evaluated.engines) == 2
    three, none, one = spent
    assert three is not None
    assert one is not None
    assert three.tokens > one.tokens > 0
    assert none is None
    assert sum(three.parts.values()) == pytest.approx(three.seconds, rel=0.02)
    assert 0.5 * seconds[0] < three.seconds < seconds[0]  # of all three


def test_each_revision_is_compared_with_the_last_good_one_of_its_training(
    evaluated: Evaluated, training: Path, monkeypatch: pytest.MonkeyPatch
):
    """The second is worse: the alias stays at the first, with which the third is compared."""

    def answer(self: SwitchingTestEngine) -> str:
        return f"{self.model} #### {2 if self.model == 'run/checkpoint-200' else 1}"

    monkeypatch.setattr(SwitchingTestEngine, "answer", answer)
    shown: list[Any] = []
    monkeypatch.setattr(NoDisplay, "finished", lambda _, evaluation: shown.append(evaluation.gate))
    verdicts: list[Any] = []
    monkeypatch.setattr(
        NoDisplay, "came", lambda *_, ended: verdicts.append(shown[-1]) if ended else None
    )
    gate = {"baseline": "last-good-{model}", "max_drop": 99, "promote": True}
    evaluation = evaluated.follow(training, gate=gate).result()

    names = [f"run/checkpoint-{step}" for step in (100, 200, 1000)]
    assert [s.model for s in evaluation.answer_sets] == names
    repository = LocalRepository(evaluated.repository)
    alias = read_alias(repository, repository.head() or "", "last-good-run")
    assert alias is not None
    (named,) = aliased_sets(repository, repository.head() or "", alias).values()
    assert named.manifest.specification.model.name == names[2]
    first, second, third = verdicts
    assert first is None
    assert third.verdict == "pass", "each is told with its own"
    assert evaluation.gate == second, "the verdict of all is that of the worst"
    assert second.verdict != "pass"
