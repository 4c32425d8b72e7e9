"""Failed requests are asked again, from the command line to the stored answers."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.answering import answering, said
from tests.command_line import Ran, regrade

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(600)]
QUESTIONS = 6


@dataclass
class Server:
    """An OpenAI-compatible server that answers `#### 1`, with faults."""

    root: str = "/ckpt/1"
    refused: set[str] = field(default_factory=set)
    """Questions answered with status 400, once each time they are sent."""
    asked: Counter[str] = field(default_factory=Counter)
    url: str = ""


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    def reply(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        question = body["messages"][-1]["content"]
        state.asked[question] += 1
        if question in state.refused:
            return 400, {"error": {"message": "not today"}}
        return 200, said("#### 1")

    with answering(reply, lambda: {"id": "m", "root": state.root}) as state.url:
        yield state


class Command:
    """`regrade evaluate` of one benchmark at the server."""

    def __init__(self, server: Server, folder: Path, api: str) -> None:
        self.server, self.folder = server, folder
        self.answers = folder / "answers"
        data = folder / "questions.jsonl"
        rows = [{"question": f"{number}?", "answer": "1"} for number in range(QUESTIONS)]
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self._config = folder / "config.yaml"
        self._config.write_text(
            json.dumps(
                {
                    "model": "m",
                    "datasets": [{"name": "ones", "path": str(data), "scorer": "number"}],
                    "engine": {"kind": "openai", "base_url": server.url},
                    "answers": str(self.answers),
                    "tracking_uri": f"sqlite:///{folder / 'mlflow.db'}",
                }
            )
        )
        self._environment = {
            "PREFECT_API_URL": api,
            "REGRADE_SPOOL": str(folder / "spool"),
            "REGRADE_LOGS": str(folder / "logs"),
        }

    def __call__(self, *options: str) -> tuple[Ran, Counter[str]]:
        """Run it, and return what it asked the server."""
        self.server.asked.clear()
        command = ("evaluate", "--config", self._config, "--json", *options)
        ran = regrade(*command, process=True, **self._environment)
        return ran, Counter(self.server.asked)

    def listed(self) -> list[dict[str, Any]]:
        found = regrade("list", "--answers", self.answers, "--json")
        sets: list[dict[str, Any]] = found.document["answer_sets"]
        return sets

    def problems(self) -> str:
        ran = regrade("verify", "--answers", self.answers)
        return "" if ran.code == 0 else ran.out + ran.err


@pytest.fixture
def evaluate(server: Server, tmp_path: Path, prefect_api: str) -> Command:
    return Command(server, tmp_path, prefect_api)


@pytest.mark.slow
def test_failed_requests_are_told_and_sent_again_by_the_same_command(
    evaluate: Command, server: Server
):
    server.refused = {"2?"}
    first, _ = evaluate()

    assert first.code == 1
    assert "ones · m: 1 of 6 answers missing (1 failed)." in first.err
    assert "The same command sends their requests again" in first.err
    assert re.search("the first request that failed: .*not today", first.err)
    (score,) = first.document["answer_sets"][0]["scores"]
    assert (score["metrics"]["n"], score["metrics"]["failed"]) == (5, 1)
    (listed,) = evaluate.listed()
    assert (listed["complete"], listed["failed"]) == (False, 1)

    kept, asked = evaluate("--keep-failed")
    assert (kept.code, asked) == (1, {})

    server.refused = set()
    again, asked = evaluate()
    assert again.code == 0, again.err
    assert asked == {"2?": 1}
    (score,) = again.document["answer_sets"][0]["scores"]
    assert (score["metrics"]["n"], score["metrics"]["accuracy"]) == (QUESTIONS, 1.0)
    (listed,) = evaluate.listed()
    assert (listed["complete"], listed["rows"]) == (True, QUESTIONS)
    assert evaluate.problems() == ""
