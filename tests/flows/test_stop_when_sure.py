"""`evaluate` with `stop_when_sure`: what is asked, stored, shown and decided. Real flows, spool and repository."""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from prefect.client.schemas.objects import State

from flows.evaluate_model import evaluate_model
from flows.scoring import score_stored
from regrade.answers.sets import AnswerSet
from regrade.comparing.likeness import NotComparableError
from regrade.engines.base import Withdrawable
from regrade.engines.vllm import VllmEngine
from regrade.jobs.job import ScoringJob
from regrade.records import Completion, Request
from regrade.results.results import Evaluation
from regrade.settings import GateSettings
from regrade.settings.errors import EngineError, SettingsError
from tests.command_line import DEMO
from tests.flows.test_fresh_engine import MortalEngine
from tests.stored import by_row, sets_in

pytestmark = [
    pytest.mark.usefixtures("mlflow_database"),
    pytest.mark.prefect,
    pytest.mark.timeout(300),
]
ROWS = 160
Text = Callable[[int], str]
"""Returns the answer to a question by its number."""
RIGHT, WRONG = (lambda _: "#### 1"), (lambda _: "#### 2")


class Leaving(MortalEngine):
    """An engine that takes a while for each answer, and leaves out what is withdrawn."""

    def __init__(self, text: Text, dies_at: int = ROWS**2) -> None:
        super().__init__(ROWS**2)
        self.text, self.dies_at = text, dies_at

    def generate(self, requests: Iterable[Request]) -> Iterator[list[Completion]]:
        for request in requests:
            if isinstance(requests, Withdrawable) and request.key in requests.withdrawn:
                continue
            if len(self.asked) == self.dies_at:
                raise EngineError("The engine ended.", "", False)
            number = int(str(request.prompt).partition("number ")[2].partition("?")[0])
            self.asked.append(number)
            sleep(0.005)
            yield [
                Completion(
                    request.key,
                    str(request.prompt),
                    text=self.text(number),
                    finish_reason="stop",
                    prompt_tokens=10,
                    completion_tokens=5,
                )
            ]


class Setup:
    """A baseline whose answers are all right, and a candidate."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._patch = folder, monkeypatch
        self.candidate = folder / "candidate"
        shutil.copytree(DEMO / "regrade-demo", self.candidate)
        with (self.candidate / "model.safetensors").open("r+b") as weights:
            weights.seek(-1, 2)
            weights.write(b"\x01")

    def dataset(self, name: str) -> dict[str, Any]:
        data = self.folder / f"{name}.jsonl"
        rows = [{"question": f"{name} number {n}?", "answer": "1"} for n in range(ROWS)]
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return {"name": name, "path": str(data), "scorer": "number"}

    def run(
        self,
        engine: MortalEngine,
        *names: str,
        model: Path | None = None,
        answers: str = "answers",
        **changes: Any,
    ) -> tuple[Evaluation, str]:
        """Evaluate, and return the result and the message of the run."""
        self._patch.setattr(VllmEngine, "open", lambda *_, **__: engine)
        state: State[Any] = evaluate_model(
            model=str(model or self.candidate),
            datasets=tuple(map(self.dataset, names or ("sums",))),
            answers=str(self.folder / answers),
            tracking_uri=f"sqlite:///{self.folder / 'mlflow.db'}",
            return_state=True,
            **changes,
        )
        found = state.result()
        assert isinstance(found, Evaluation)
        return found, str(state.message)

    def baseline(self, *names: str, text: Text = RIGHT) -> None:
        self.run(Leaving(text), *names, model=DEMO / "regrade-demo")

    def stored(self, benchmark: str = "sums", answers: str = "answers") -> AnswerSet:
        *_, newest = sets_in(self.folder / answers, benchmark=benchmark)
        return newest


def gate(**changes: Any) -> GateSettings:
    settings = {"max_drop": 3, **changes}  # less could not be shown by so few questions
    return GateSettings(baseline="regrade-demo", stop_when_sure=True, **settings)


@pytest.fixture
def setup(
    flows_on_server: str, spool_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Setup:
    monkeypatch.setattr("tasks.generate.LOOK_SECONDS", 0.02)
    return Setup(tmp_path, monkeypatch)


def test_a_clear_regression_stops_early_and_is_no_result(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    setup.baseline()
    caplog.set_level("INFO", logger="regrade")

    result, message = setup.run(engine := Leaving(WRONG), gate=gate())

    (found,) = result.answer_sets
    assert found.stopped is not None
    assert (found.stopped.verdict, found.stopped.of) == ("regression", ROWS)
    assert found.stopped.questions <= found.rows <= len(engine.asked) < ROWS / 2
    assert found.stopped.saved_questions == ROWS - found.rows
    assert found.stopped.saved_tokens == 15 * (ROWS - found.rows)
    assert found.scores == ()
    assert f"{found.stopped.text}." in caplog.text
    assert f"Saved: {ROWS - found.rows} questions, about" in caplog.text
    assert message.startswith(f"regression: sums: after {found.stopped.questions} of 160 questions")
    assert result.gate is not None
    assert (result.gate.verdict, result.gate.summary) == ("regression", message)
    answers = setup.stored()
    assert answers.manifest.state == "incomplete"
    assert str(answers.manifest.stopped) == found.stopped.text
    assert answers.scores() == []
    score_stored(ScoringJob(answers=str(setup.folder / "answers")))
    assert f"is not scored: {found.rows} of {ROWS} answers, stopped after" in caplog.text
    assert setup.stored().scores() == []


def test_the_same_command_without_the_option_completes_it_to_the_set_it_would_have_been(
    setup: Setup,
) -> None:
    by_number: Text = lambda number: f"#### {2 + number}"  # noqa: E731
    setup.baseline()
    (early,) = setup.run(first := Leaving(by_number), gate=gate())[0].answer_sets

    (whole,) = setup.run(rest := Leaving(by_number))[0].answer_sets
    (alone,) = setup.run(plain := Leaving(by_number), answers="other")[0].answer_sets

    assert plain.asked == [*range(ROWS)]
    assert first.asked != sorted(first.asked)  # a random order, in windows
    assert len(rest.asked) == ROWS - early.rows
    assert early.answer_set_id == whole.answer_set_id == alone.answer_set_id
    assert whole.stopped is None
    assert whole.scores[0].metrics["n"] == ROWS
    assert setup.stored().manifest.stopped is None
    assert by_row(setup.stored(), "text") == by_row(setup.stored(answers="other"), "text")


def test_a_sure_verdict_is_found_again_without_an_engine(setup: Setup) -> None:
    setup.baseline()
    setup.run(Leaving(WRONG), gate=gate())

    result, message = setup.run(again := Leaving(WRONG), gate=gate())

    assert again.asked == []
    assert message.startswith("regression")
    assert result.answer_sets[0].stopped is not None


def test_a_run_that_was_interrupted_counts_its_answers(setup: Setup) -> None:
    setup.baseline()
    with pytest.raises(EngineError):
        setup.run(first := Leaving(WRONG, dies_at=8), gate=gate(max_drop=40))

    result, _ = setup.run(second := Leaving(WRONG), gate=gate(max_drop=40))

    (found,) = result.answer_sets
    assert found.stopped is not None
    assert {*first.asked}.isdisjoint(second.asked)
    assert found.stopped.questions > 8


def test_an_even_candidate_is_asked_everything_and_gets_the_verdict_at_the_end(
    setup: Setup,
) -> None:
    setup.baseline(text=lambda number: f"#### {1 + number % 2}")

    result, message = setup.run(
        engine := Leaving(lambda number: f"#### {1 + (number + 1) % 2}"), gate=gate()
    )

    (found,) = result.answer_sets
    assert (found.stopped, found.rows, len(engine.asked)) == (None, ROWS, ROWS)
    assert found.scores[0].metrics["n"] == ROWS
    assert message.startswith("cannot tell: sums: ")


def test_each_of_several_benchmarks_stops_by_itself_and_one_verdict_says_it_all(
    setup: Setup,
) -> None:
    setup.baseline("sums", "names", text=lambda number: f"#### {1 + number % 2}")

    class Mixed(Leaving):
        def generate(self, requests: Iterable[Request]) -> Iterator[list[Completion]]:
            sums = {r.key for r in requests if "sums" in str(r.prompt)}
            for batch in super().generate(requests):
                (completion,) = batch
                wrong = {"text": "#### 9"} if completion.key in sums else {}
                yield [replace(completion, **wrong)]

    result, message = setup.run(
        Mixed(lambda number: f"#### {1 + (number + 1) % 2}"), "sums", "names", gate=gate()
    )

    by_name = {found.benchmark: found for found in result.answer_sets}
    sums, names = by_name["sums"].stopped, by_name["names"]
    assert sums is not None
    assert sums.verdict == "regression"
    assert (names.stopped, names.rows, len(names.scores)) == (None, ROWS, 1)
    assert message.startswith("regression: sums: after ")


def test_a_gate_that_cannot_compare_ends_before_anything_is_generated(setup: Setup) -> None:
    setup.baseline()
    engine, limits = Leaving(RIGHT), GateSettings(baseline="regrade-demo", max_drop=20)

    with pytest.raises(NotComparableError, match="sums: 20 questions, and the baseline has 160"):
        setup.run(engine, limit=20, gate=limits)
    with pytest.raises(NotComparableError, match="sums: temperature: '0.0' against '0.7'"):
        setup.run(engine, sampling={"temperature": 0.7}, gate=limits)
    assert engine.asked == []
    allowed = limits.model_copy(update={"allow": ("overlap",)})
    assert setup.run(engine, limit=20, gate=allowed)[1].startswith("pass: sums")


def test_what_cannot_be_watched_is_refused_before_anything_is_generated(setup: Setup) -> None:
    setup.baseline()
    engine = Leaving(WRONG)

    with pytest.raises(NotComparableError, match="few_shot|prompt"):
        setup.run(engine, prompt={"system": "Be brief."}, gate=gate())
    with pytest.raises(SettingsError, match="leave it or `machines` out"):
        setup.run(engine, machines=2, gate=gate())
    with pytest.raises(ValueError, match="`gate.max_unparsed` is a limit for all answers"):
        gate(max_unparsed=5)
    with pytest.raises(ValueError, match="`gate.promote` moves an alias to complete answers only"):
        gate(promote=True)

    assert engine.asked == []
