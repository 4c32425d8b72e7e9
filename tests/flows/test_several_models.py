"""Several models in one evaluation: the engine goes on with the next one, and every row belongs to the model that gave it."""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from prefect import State

from flows import generating
from flows.evaluate_model import evaluate_model
from flows.generate_answers import generate_answers
from flows.sweep_settings import sweep_settings
from perf.workloads import checkpoint
from regrade.answers.aliases import aliased_sets, read_alias
from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from regrade.answers.spool import Spool, SpoolBusyError
from regrade.checkpoints import following
from regrade.engines.vllm import VllmEngine
from regrade.models.base import ResolvedModel
from regrade.records import Completion, Request
from regrade.records.computed import LoadedWeights
from regrade.results.display import NoDisplay
from regrade.results.results import Evaluation
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


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for models often."""
    monkeypatch.setattr(following, "SETTLE", 0.0)
    monkeypatch.setattr(following, "POLL", 0.05)


def at_the_end(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Call an action when the result of each model that came is told."""
    monkeypatch.setattr(NoDisplay, "came", lambda *_, ended: action() if ended else None)


def without_reading_ahead(engine: SwitchingTestEngine) -> list[str]:
    return [event for event in engine.events if not event.startswith("ahead")]


def test_models_that_come_later_are_evaluated_in_the_same_engine_and_one_that_fails_stops_no_other(
    evaluated: Evaluated,
    training: Path,
    demo_model: Path,
    quick: None,
    monkeypatch: pytest.MonkeyPatch,
):
    told: list[tuple[str, str | None, bool]] = []

    def came(_: NoDisplay, model: str, error: str | None = None, *, ended: bool) -> None:
        told.append((Path(model).name, error, ended))
        if len(told) == 6:  # all three are done
            checkpoint(demo_model, training / "checkpoint-2000", seed=2000)

    monkeypatch.setattr(NoDisplay, "came", came)
    switch = SwitchingTestEngine.switch

    def refuse(self: SwitchingTestEngine, model: ResolvedModel, requests: Any) -> None:
        if model.identity.name == "run/checkpoint-200":
            raise SettingsError("The weights cannot be read.")
        switch(self, model, requests)

    monkeypatch.setattr(SwitchingTestEngine, "switch", refuse)
    state = evaluated.run(f"{training}/checkpoint-*", flow=evaluate_model, follow=1.0)

    assert [without_reading_ahead(engine) for engine in evaluated.engines] == [
        ["open run/checkpoint-100", "end"],
        ["open run/checkpoint-1000", "switch run/checkpoint-2000, 1 streams", "end"],
    ]
    errors = {100: None, 200: "The weights cannot be read.", 1000: None, 2000: None}
    assert told == [
        (f"checkpoint-{step}", *outcome)
        for step, error in errors.items()
        for outcome in ((None, False), (error, True))
    ]
    with pytest.raises(OperationError, match="1 of 4 models failed: .*checkpoint-200"):
        state.result()
    assert len(evaluated.answers) == 3


def test_a_checkpoint_that_never_became_complete_fails_the_run(
    evaluated: Evaluated, training: Path, quick: None
):
    shorten(training / "checkpoint-200")
    state = evaluated.run(f"{training}/checkpoint-*", flow=evaluate_model, follow=0.2)

    assert len(evaluated.answers) == 2
    with pytest.raises(OperationError, match="^1 of 3 models failed: .*checkpoint-200"):
        state.result()


def shorten(checkpoint: Path) -> bytes:
    """Cut the end of a checkpoint's weights, and return them whole."""
    weights = checkpoint / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-100])
    return whole


def test_an_evaluation_to_which_no_model_comes_says_so(evaluated: Evaluated, tmp_path: Path):
    state = evaluated.run(f"{tmp_path}/checkpoint-*", flow=evaluate_model, follow=0.0)
    with pytest.raises(ModelError, match="no complete model came within 0 s"):
        state.result()


def test_a_checkpoint_that_comes_while_another_is_answered_is_read_ahead(
    evaluated: Evaluated,
    training: Path,
    demo_model: Path,
    quick: None,
    monkeypatch: pytest.MonkeyPatch,
):
    answer = SwitchingTestEngine.answer

    def slow(self: SwitchingTestEngine) -> str:
        """Answer the questions to the last of the checkpoints when the next one is there and was announced."""
        name = "run/checkpoint-2000"
        if self.model == "run/checkpoint-1000" and f"ahead {name}" not in self.events:
            if not (training / "checkpoint-2000").exists():
                # Whole from its first moment: one that changes is announced again.
                made = checkpoint(demo_model, training.parent / "made", seed=2000)
                made.rename(training / "checkpoint-2000")
            wait_until(lambda: f"ahead {name}" in self.events)
        return answer(self)

    monkeypatch.setattr(SwitchingTestEngine, "answer", slow)
    evaluated.run(f"{training}/checkpoint-*", flow=evaluate_model, follow=0.0).result()

    (engine,) = evaluated.engines
    assert engine.events.index("ahead run/checkpoint-2000") < engine.events.index(
        "switch run/checkpoint-2000, 1 streams"
    )
    assert engine.events.count("ahead run/checkpoint-2000") == 1
    assert len(evaluated.answers) == 4


def test_the_engine_leaves_the_gpu_before_a_result_is_told_if_no_model_waits(
    evaluated: Evaluated,
    demo_model: Path,
    tmp_path: Path,
    quick: None,
    monkeypatch: pytest.MonkeyPatch,
):
    checkpoint(demo_model, tmp_path / "run" / "checkpoint-100", seed=100)
    monkeypatch.setattr(VllmEngine, "able_to_sleep", lambda self: self)
    told: list[list[str]] = []

    def end() -> None:
        told.append([e for engine in evaluated.engines for e in without_reading_ahead(engine)])
        if len(told) == 1:
            checkpoint(demo_model, tmp_path / "run" / "checkpoint-200", seed=200)

    at_the_end(monkeypatch, end)
    evaluated.run(
        f"{tmp_path}/run/checkpoint-*", flow=evaluate_model, follow=0.5, between="deep-sleep"
    ).result()

    first = ["open run/checkpoint-100", "deep sleep"]
    assert told == [first, [*first, "switch run/checkpoint-200, 1 streams", "deep sleep"]]
    assert evaluated.engines[-1].events[-1] == "end"


def test_a_cpu_cannot_sleep_which_is_said_before_anything_starts(
    evaluated: Evaluated, training: Path
):
    state = evaluated.run(
        f"{training}/checkpoint-*", flow=evaluate_model, follow=1.0, between="sleep"
    )
    with pytest.raises(SettingsError, match="vLLM cannot sleep on a CPU: use `between=stay`"):
        state.result()
    assert not evaluated.engines


def test_a_run_on_a_schedule_evaluates_what_is_new_with_one_engine_and_ends(
    evaluated: Evaluated, training: Path, quick: None, monkeypatch: pytest.MonkeyPatch
):
    """A checkpoint that is not complete is left to the next run."""
    monkeypatch.setenv("REGRADE_CACHE", str(training / "cache"))  # without notes of earlier runs
    last = checkpoint(training / "checkpoint-100", training / "checkpoint-2000", seed=2000)
    whole = shorten(last)
    found: list[Evaluation] = []
    seconds: list[float] = []

    def look() -> list[str]:
        drained = {"follow": 0.0, "only_new": True}
        begun = monotonic()
        state = evaluated.run(f"{training}/checkpoint-*", flow=evaluate_model, **drained)
        found.append(state.result())
        seconds.append(monotonic() - begun)
        return [answers.model for answers in found[-1].answer_sets]

    assert look() == [f"run/checkpoint-{step}" for step in (100, 200, 1000)]
    assert len(evaluated.engines) == 1
    assert look() == []
    (last / "model.safetensors").write_bytes(whole)
    assert look() == ["run/checkpoint-2000"]
    assert len(evaluated.engines) == 2
    three, none, one = (evaluation.time_spent for evaluation in found)
    assert three is not None
    assert one is not None
    assert three.tokens > one.tokens > 0
    assert none is None
    assert sum(three.parts.values()) == pytest.approx(three.seconds, rel=0.02)
    assert 0.8 * seconds[0] < three.seconds < seconds[0]


def test_a_revision_that_another_run_generates_is_left_to_a_later_run(
    evaluated: Evaluated, training: Path, quick: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("REGRADE_CACHE", str(training / "cache"))  # without notes of earlier runs

    def busy(spool: Spool, *_: object) -> None:
        raise SpoolBusyError(str(spool.folder), "process 1")

    def run() -> State[Any]:
        return evaluated.run(
            f"{training}/checkpoint-100", flow=evaluate_model, follow=0.0, only_new=True
        )

    with monkeypatch.context() as patch:
        patch.setattr(generating, "_open_spool", busy)
        state = run()
    with pytest.raises(OperationError, match="1 of 1 models failed"):
        state.result()
    assert [s.model for s in run().result().answer_sets] == ["run/checkpoint-100"]


def test_each_revision_is_compared_with_the_last_good_one_of_its_training(
    evaluated: Evaluated, training: Path, quick: None, monkeypatch: pytest.MonkeyPatch
):
    """The second is worse: the alias stays at the first, with which the third is compared."""

    def answer(self: SwitchingTestEngine) -> str:
        return f"{self.model} #### {2 if self.model == 'run/checkpoint-200' else 1}"

    monkeypatch.setattr(SwitchingTestEngine, "answer", answer)
    shown: list[Any] = []
    monkeypatch.setattr(NoDisplay, "finished", lambda _, evaluation: shown.append(evaluation))
    verdicts: list[Any] = []
    at_the_end(monkeypatch, lambda: verdicts.append(shown[-1].gate))
    gate = {"baseline": "last-good-{model}", "max_drop": 99, "promote": True}
    state = evaluated.run(f"{training}/checkpoint-*", flow=evaluate_model, follow=0.0, gate=gate)

    evaluation = state.result()
    assert [s.model for s in evaluation.answer_sets] == [
        f"run/checkpoint-{step}" for step in (100, 200, 1000)
    ]
    repository = LocalRepository(evaluated.repository)
    alias = read_alias(repository, repository.head() or "", "last-good-run")
    assert alias is not None
    (named,) = aliased_sets(repository, repository.head() or "", alias).values()
    assert evaluation.gate is not None
    assert evaluation.gate.verdict != "pass", "the verdict of all is that of the worst"
    assert verdicts == [None, evaluation.gate, verdicts[2]], "each is told with its own"
    assert verdicts[2].verdict == "pass"
    assert named.manifest.specification.model.name == "run/checkpoint-1000"
