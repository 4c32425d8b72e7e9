"""Conversations of the user, and engines that answer them without a model."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Self

from regrade.benchmarks import open_dataset
from regrade.engines.base import EngineInfo, Growing
from regrade.jobs.plan import Plan, make_plan
from regrade.records import Completion, Request
from regrade.settings import DatasetBenchmark, PromptSettings, SamplingSettings
from tests.sums import MODEL, SERVER

Said = Callable[[Request], dict[str, Any]]
"""Fields of the completion of a request."""


def write_turns(path: Path, *turns: list[str], **more: list[Any]) -> Path:
    """Write conversations, one a line; `more` are further columns."""
    rows = [
        {"turns": texts, "answer": texts} | {name: values[n] for name, values in more.items()}
        for n, texts in enumerate(turns)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def conversations(path: Path, **changes: Any) -> DatasetBenchmark:
    given = {"name": "talks", "path": str(path), "turns_column": "turns", **changes}
    return DatasetBenchmark(**given)


def plan_of_turns(
    path: Path,
    *,
    repeats: int | None = 1,
    temperature: float = 0.0,
    limit: int | None = None,
    prompt: PromptSettings | None = None,
    **changes: Any,
) -> Plan:
    prompt = prompt or PromptSettings()
    return make_plan(
        open_dataset(conversations(path, **changes), prompt=prompt, limit=limit),
        MODEL,
        SERVER,
        sampling=SamplingSettings(temperature=temperature),
        prompt=prompt,
        repeats=repeats,
    )


def last_user(request: Request) -> str:
    assert not isinstance(request.prompt, str)
    return request.prompt[-1]["content"]


def echo(request: Request) -> dict[str, Any]:
    """Say how many messages there were, and the last of them."""
    return {"text": f"{len(request.prompt)}: {last_user(request)}"}


class Talking:
    """An engine that answers one request at a time, the last that it took first.

    Args:
        said: Its answers.
        grows: It asks for requests that became ready; else they come with a further call.
        ends_after: Answers after which it stops without a word, as an engine that is killed.
    """

    info = EngineInfo("vllm", "0", "cpu", "float32", 64, None, 0.0)

    def __init__(
        self, said: Said = echo, *, grows: bool = True, ends_after: int | None = None
    ) -> None:
        self.said, self.grows, self.left = said, grows, ends_after
        self.asked: list[Request] = []
        self.calls = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def generate(self, requests: Iterable[Request]) -> Iterator[list[Completion]]:
        self.calls += 1
        waiting = list(requests)
        while waiting:
            if self.left == 0:
                return
            self.left = None if self.left is None else self.left - 1
            request = waiting.pop()
            self.asked.append(request)
            yield [
                Completion(
                    request.key, json.dumps(request.prompt), "messages", **self.said(request)
                )
            ]
            if self.grows and isinstance(requests, Growing):
                waiting += requests.ready(5)
