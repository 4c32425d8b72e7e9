"""Test engine with a limit on its requests in flight, and engine starts that are counted."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from regrade.engines.base import EngineInfo
from regrade.engines.vllm import VllmEngine
from regrade.records import Completion, Request
from regrade.records.computed import BatchCheck, Computed
from regrade.settings.errors import EngineError
from regrade.stats.occupancy import Occupancy
from regrade.stats.speed import Speed, Spread
from tests.command_line import DEMO

Answer = Callable[[Request, VllmEngine, int | None], str]


class LimitedTestEngine:
    """Answers with a function of request, settings and requests in flight."""

    def __init__(self, settings: VllmEngine, answer: Answer, dies_at: int | None) -> None:
        self.settings, self._answer, self._dies_at = settings, answer, dies_at
        self.info = EngineInfo(
            "vllm",
            "0.32.0",
            "cpu",
            "float32",
            512,
            None,
            1.0,
            max_num_batched_tokens=settings.max_num_batched_tokens or 2048,
            max_num_seqs=settings.max_num_seqs or 256,
        )
        self.in_flight: int | None = None
        self.limits: list[int | None] = []
        self.asked: list[Any] = []
        self.speed: Speed | None = None
        self.unanswered = 0
        self.occupancy: Occupancy | None = None

    def limit(self, in_flight: int | None) -> None:
        self.in_flight = in_flight
        self.limits.append(in_flight)

    def measure(self) -> Speed | None:
        return self.speed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def generate(self, requests: Iterable[Request]) -> Iterator[list[Completion]]:
        batch: list[Completion] = []
        for number, request in enumerate(requests):
            if self.in_flight is not None and self.in_flight == self._dies_at and number == 1:
                yield batch
                raise EngineError("The engine ended.", "", False)
            self.asked.append(request.prompt)
            batch.append(
                Completion(
                    request.key,
                    str(request.prompt),
                    text=self._answer(request, self.settings, self.in_flight),
                    finish_reason="stop",
                    prompt_tokens=9,
                    completion_tokens=4,
                    latency=0.5,
                    time_to_first_token=0.2,
                )
            )
        seconds = 0.001 * (self.in_flight or 1)
        spread = Spread(mean=seconds, p25=seconds, p50=seconds, p75=seconds, p99=seconds, n=1)
        self.speed = Speed(tpot=spread, ttft=spread, steps=1, running_max=1)
        yield batch


class CheckedTestEngine(LimitedTestEngine):
    """In the batch-invariant mode, and its answers to fixed prompts do not depend on those computed with them."""

    batches: BatchCheck | None = None

    def __init__(self, settings: VllmEngine, answer: Answer, dies_at: int | None) -> None:
        super().__init__(settings, answer, dies_at)
        self.info = replace(self.info, computed=Computed(batch_invariant=True))

    def check_batches(self) -> None:
        self.batches = BatchCheck(tokens=40, differing=0, largest=0.0)


class Engines:
    """The engines that a test's flow opened."""

    def __init__(self) -> None:
        self.kind = LimitedTestEngine
        self.version = "0.32.0"
        self.opened: list[LimitedTestEngine] = []
        self.answer: Answer = lambda *_: "#### 1"
        self.dies_at: int | None = None
        self.refused: Callable[[VllmEngine], bool] = lambda _: False

    def open(self, settings: VllmEngine) -> LimitedTestEngine:
        engine = self.kind(settings, self.answer, self.dies_at)
        engine.info = replace(engine.info, version=self.version)
        self.opened.append(engine)
        if self.refused(settings):
            raise EngineError("The engine did not start: out of memory.")
        return engine


def demo_asked(folder: Path, n: int, *names: str) -> dict[str, Any]:
    """Parameters of a flow that asks the demo model n questions, again for each name of a dataset."""
    data = str(questions(folder, n))
    return {
        "model": str(DEMO / "regrade-demo"),
        "datasets": tuple({"name": name, "path": data, "scorer": "number"} for name in names),
        "answers": str(folder / "answers"),
    }


def questions(folder: Path, n: int) -> Path:
    """A file with n questions whose answer is 1."""
    file = folder / "questions.jsonl"
    file.write_text("".join(f'{{"question": "What is {i}?", "answer": "1"}}\n' for i in range(n)))
    return file
