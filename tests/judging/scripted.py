"""An OpenAI-compatible server whose model is a scripted judge, and stored answers to judge."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regrade.answers.base import Repository
from regrade.answers.sets import AnswerSet
from tests.answering import answering
from tests.builders import row
from tests.stored import publish

FENCED = re.compile(
    r"<(?P<name>\w+)-(?P<mark>[0-9a-f]{8})>\n(?P<text>.*?)\n</(?P=name)-(?P=mark)>", re.S
)
Judge = Callable[[dict[str, str]], str | dict[str, Any]]
"""Gets the fenced texts of a prompt by name; returns a verdict, or a whole choice of the API as a dictionary."""


def by_reference(texts: dict[str, str]) -> str:
    """Judge that never errs: A if the answer holds the reference, C if it is empty or says so, else B."""
    answer = texts["answer"]
    said = re.search(rf"\b{re.escape(texts['reference'])}\b", answer)
    letter = "A" if said else "B" if answer and "know" not in answer else "C"
    return json.dumps({"explanation": "As compared.", "verdict": letter})


class ScriptedJudge:
    """The server: `judge` decides each reply; `bodies` are the requests that it got."""

    def __init__(self, judge: Judge, *, owner: str = "someone") -> None:
        self.judge, self.owner, self.name = judge, owner, "judge-7b"
        self.bodies: list[dict[str, Any]] = []
        self.fail_after: int | None = None
        """Number of replies after which requests fail with status 400."""
        self.too_long: str | None = None
        """Text of a prompt that does not fit into the context."""
        self.closed: set[str] = set()
        """Texts of prompts that fail with status 400 for the time being."""
        self.lock = threading.Lock()

    @property
    def prompts(self) -> list[str]:
        return [body["messages"][-1]["content"] for body in self.bodies]

    def reply(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self.lock:
            if self.fail_after is not None and len(self.bodies) >= self.fail_after:
                return 400, {"error": {"message": "closed for today"}}
            prompt = body["messages"][-1]["content"]
            if any(text in prompt for text in self.closed):
                return 400, {"error": {"message": "closed for now"}}
            self.bodies.append(body)
        if self.too_long is not None and self.too_long in prompt:
            return 400, {"error": {"message": "This model's maximum context length is 9 tokens."}}
        texts = {found["name"]: found["text"] for found in FENCED.finditer(prompt)}
        said = self.judge(texts)
        choice = said if isinstance(said, dict) else {"message": {"content": said}}
        choice = {"index": 0, "finish_reason": "stop", **choice}
        return 200, {"choices": [choice], "usage": {"prompt_tokens": 100, "completion_tokens": 10}}

    @contextmanager
    def served(self) -> Iterator[str]:
        """Yield the address of the API."""
        with answering(self.reply, lambda: {"id": self.name, "owned_by": self.owner}) as url:
            yield url


def candidates(
    repository: Repository | Path,
    texts: list[str | None] | None = None,
    *,
    repeats: int = 1,
    **changes: Any,
) -> AnswerSet:
    """Publish answers to sums: question n has the target n; without texts, every third answer is wrong."""
    if isinstance(repository, Path):
        from regrade.answers.local import LocalRepository

        repository = LocalRepository(repository)
    if texts is None:
        texts = [f"It is {n if n % 3 else n + 100}." for n in range(1, 10)]
    rows = []
    for number, text in enumerate(texts, 1):
        failed = {"text": None, "error": "too long", "error_permanent": True, "finish_reason": None}
        for repeat in range(repeats):
            changed = {"question": f"What is {number}?", "target": str(number), "subset": ""}
            rows.append(
                row(number, text or "", repeat=repeat, **changed) | ({} if text else failed)
            )
    fields = {"scorers": ("judge",), "repeats": repeats, **changes}
    return publish(repository, rows, **fields)
