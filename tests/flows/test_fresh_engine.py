"""The engine of a flow: replaced once if it ends after answering, and held no longer than it is needed. Real flow and
repository."""

import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from time import sleep
from typing import Any, ClassVar, Self
from unittest.mock import Mock

import pytest

from flows import generating
from flows.evaluate_model import evaluate_model
from flows.generate_answers import generate_answers
from regrade.answers.local import LocalRepository
from regrade.answers.spool import Spool, SpoolBusyError
from regrade.engines.base import EngineInfo
from regrade.engines.vllm import VllmEngine
from regrade.orchestration.worker import ENGINE_DONE
from regrade.records import Completion, Request
from regrade.results.results import Evaluation
from regrade.settings.errors import EngineError
from tests.crash.harness import stored
from tests.limited_engine import demo_asked

pytestmark = pytest.mark.prefect
ROWS = 6


class MortalEngine:
    """Test engine that answers some requests, then ends like a killed engine."""

    opened: ClassVar[list["MortalEngine"]] = []

    def __init__(self, answers: int, *, fresh_helps: bool = True) -> None:
        self.info = EngineInfo("vllm", "0", "cpu", "float32", 512, None, 1.0)
        self._answers, self._fresh_helps = answers, fresh_helps
        self.done: bool | None = None
        """The file ENGINE_DONE existed when the engine ended."""
        self.asked: list[Any] = []

    def __enter__(self) -> Self:
        self.opened.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.done = Path(os.environ.get(ENGINE_DONE, "/nowhere")).exists()

    def generate(self, requests: Iterable[Request]) -> Iterator[list[Completion]]:
        for number, request in enumerate(requests):
            if number == self._answers:
                raise EngineError("The engine ended.", "", self._fresh_helps)
            self.asked.append(request.prompt)
            done = Completion(request.key, str(request.prompt), text="#### 1", finish_reason="stop")
            yield [replace(done, completion_tokens=4)]


@pytest.fixture
def evaluate(
    flows_on_server: str, spool_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Any:
    given = demo_asked(tmp_path, ROWS, "mine")

    def run(*engines: MortalEngine) -> Evaluation:
        MortalEngine.opened = []
        waiting = iter(engines)
        monkeypatch.setattr(VllmEngine, "open", lambda *_, **__: next(waiting))
        return generate_answers(**given)

    return run


def rows_in(folder: Path) -> list[Any]:
    return stored(LocalRepository(folder / "answers"))


def test_a_fresh_engine_goes_on_where_the_other_ended_and_the_answers_of_both_count(
    evaluate: Any, tmp_path: Path
):
    first, second = MortalEngine(2), MortalEngine(ROWS)
    evaluation = evaluate(first, second)
    assert evaluation.answer_sets[0].generated == ROWS
    assert evaluation.time_spent.tokens == 4 * ROWS
    answers = rows_in(tmp_path)
    assert len(answers) == len(dict(answers)) == ROWS
    assert len(first.asked) == 2
    assert len(second.asked) == ROWS - 2
    assert len({str(prompt) for prompt in first.asked + second.asked}) == ROWS


def test_an_engine_that_never_worked_is_not_replaced_and_its_error_is_raised_as_it_is(
    evaluate: Any,
):
    with pytest.raises(EngineError, match="^The engine ended.$"):
        evaluate(MortalEngine(0, fresh_helps=False), MortalEngine(ROWS))
    assert len(MortalEngine.opened) == 1


@pytest.fixture
def done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """File that tells the worker that the run needs no engine any more."""
    monkeypatch.setenv(ENGINE_DONE, str(tmp_path / "done"))
    return tmp_path / "done"


def test_the_worker_is_told_when_the_engine_has_ended(evaluate: Any, done: Path):
    engine = MortalEngine(ROWS)
    evaluate(engine)
    assert engine.done is False
    assert done.exists()


def test_the_worker_is_told_after_the_engine_of_the_last_judge(
    flows_on_server: str,
    spool_home: Path,
    done: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    engines = [MortalEngine(ROWS), MortalEngine(ROWS)]
    monkeypatch.setattr(VllmEngine, "open", Mock(side_effect=engines))
    given = demo_asked(tmp_path, ROWS, "mine")
    judge = {"judges": [given["model"]], "rubric": "correct"}
    evaluate_model(**given, judge=judge, return_state=True)
    assert [engine.done for engine in engines] == [False, False]
    assert [len(engine.asked) for engine in engines] == [ROWS, ROWS]
    assert done.exists()


def test_the_second_engine_that_ends_is_the_last_and_what_it_answered_is_published_without_one(
    evaluate: Any, done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    publish = generating.publish_finished
    told = []
    monkeypatch.setattr(
        generating, "publish_finished", lambda works: (told.append(done.exists()), publish(works))
    )
    with pytest.raises(EngineError, match="The engine ended"):
        evaluate(MortalEngine(2), MortalEngine(1), MortalEngine(ROWS))
    assert len(rows_in(tmp_path)) == 3
    assert told == [False, True]  # the first engine is replaced
    assert [engine.done for engine in MortalEngine.opened] == [False, False]


def test_a_run_of_a_worker_waits_for_another_run_of_the_same_answers(
    evaluate: Any,
    done: Path,
    spool_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    with pytest.raises(EngineError):
        evaluate(MortalEngine(2), MortalEngine(1))
    done.unlink()
    caplog.set_level("INFO", logger="regrade")
    (lock,) = spool_home.rglob("*.lock")
    held, free = threading.Event(), threading.Event()

    def hold() -> None:
        with Spool(lock.with_suffix("")):
            held.set()
            free.wait(30)
            for _ in range(300):  # until the waiting run makes room for others
                if done.exists():
                    return
                sleep(0.1)

    other = threading.Thread(target=hold)
    other.start()
    assert held.wait(30)
    with pytest.raises(SpoolBusyError, match="Another run"):  # not under a worker
        evaluate(MortalEngine(ROWS))
    monkeypatch.setattr(generating, "SPOOL_POLL", 0.1)
    monkeypatch.setattr(generating, "runs_under_worker", lambda: True)
    free.set()
    evaluate(MortalEngine(ROWS))
    other.join()
    assert len(rows_in(tmp_path)) == ROWS
    assert "waiting for another run of the same answer set" in caplog.text
