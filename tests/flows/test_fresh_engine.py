"""An engine that ends after answering is replaced once; one that fails earlier is not. Real flow and repository."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.generate_answers import generate_answers
from regrade.answers.local import LocalRepository
from regrade.engines.base import EngineInfo
from regrade.engines.vllm import VllmEngine
from regrade.errors import EngineError
from regrade.records import Completion, Request
from tests.command_line import DEMO
from tests.crash.harness import stored

pytestmark = pytest.mark.prefect
ROWS = 6


class MortalEngine:
    """Test engine that answers some requests, then ends like a killed engine."""

    opened: ClassVar[list["MortalEngine"]] = []

    def __init__(self, answers: int, *, fresh_helps: bool = True) -> None:
        self.info = EngineInfo("vllm", "0", "cpu", "float32", 512, None, 1.0)
        self._answers, self._fresh_helps = answers, fresh_helps
        self.asked: list[Any] = []

    def __enter__(self) -> Self:
        self.opened.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def generate(self, requests: Iterable[Request]) -> Iterator[list[Completion]]:
        for number, request in enumerate(requests):
            if number == self._answers:
                raise EngineError("The engine ended.", "", self._fresh_helps)
            self.asked.append(request.prompt)
            done = Completion(request.key, str(request.prompt), text="#### 1", finish_reason="stop")
            yield [done]


@pytest.fixture
def evaluate(
    prefect_server: str, spool_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Any:
    data = tmp_path / "questions.jsonl"
    rows = [{"question": f"{number}?", "answer": "1"} for number in range(ROWS)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def run(*engines: MortalEngine) -> LocalRepository:
        MortalEngine.opened = []
        waiting = iter(engines)
        monkeypatch.setattr(VllmEngine, "open", lambda *_, **__: next(waiting))
        with temporary_settings({PREFECT_API_URL: prefect_server}):
            generate_answers(
                model=str(DEMO / "model"),
                datasets=({"name": "mine", "path": str(data), "scorer": "number"},),
                answers=str(tmp_path / "answers"),
            )
        return LocalRepository(tmp_path / "answers")

    return run


def test_a_fresh_engine_goes_on_where_the_other_ended(evaluate: Any):
    first, second = MortalEngine(2), MortalEngine(ROWS)
    answers = stored(evaluate(first, second))
    assert len(answers) == len(dict(answers)) == ROWS
    assert len(first.asked) == 2
    assert len(second.asked) == ROWS - 2
    assert len({str(prompt) for prompt in first.asked + second.asked}) == ROWS


def test_the_second_engine_that_ends_is_the_last(evaluate: Any, tmp_path: Path):
    with pytest.raises(EngineError, match="The engine ended"):
        evaluate(MortalEngine(2), MortalEngine(1), MortalEngine(ROWS))
    assert len(MortalEngine.opened) == 2
    assert len(stored(LocalRepository(tmp_path / "answers"))) == 3


def test_an_engine_that_never_worked_is_not_replaced(evaluate: Any):
    with pytest.raises(EngineError, match="The engine ended"):
        evaluate(MortalEngine(0, fresh_helps=False), MortalEngine(ROWS))
    assert len(MortalEngine.opened) == 1
