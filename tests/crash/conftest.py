"""Fixtures of the crash tests: an engine over HTTP, a real Prefect server, and a reference run without a crash."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from regrade.answers.hub import HubRepository
from regrade.answers.local import LocalRepository
from tests.answering import answering, said
from tests.command_line import DEMO
from tests.crash.harness import Account, Command, accuracy, config, generating, told, whole_rows
from tests.hub_server.fixtures import Hub

LIMIT = 120
ACCOUNTS: pytest.StashKey[list[Account]] = pytest.StashKey()


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Configuration for a server that answers slowly enough to be interrupted, two questions of three right."""
    lines = (DEMO / "data" / "arithmetic.jsonl").read_text().splitlines()
    asked = [json.loads(line) for line in lines]
    answers = {row["question"]: row["answer"] for row in asked[::3] + asked[1::3]}

    def reply(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        time.sleep(0.05)
        question = body["messages"][-1]["content"].partition("\nWork it out")[0]
        return 200, said(f"{question} I think it is {answers.get(question, '#### -1')}")

    with answering(reply, lambda: {"id": "demo", "root": "/served/demo"}) as url:
        engine = {"kind": "openai", "base_url": url, "max_concurrency": 2, "max_retries": 1}
        yield config(tmp_path_factory.mktemp("served"), engine, model="demo", limit=LIMIT)


@dataclass(frozen=True)
class Reference:
    rows: int
    texts: dict
    accuracy: float | None


@pytest.fixture(scope="session")
def reference(
    served: Path, prefect_server: str, tmp_path_factory: pytest.TempPathFactory
) -> Reference:
    """Results of the same run without a crash."""
    home = tmp_path_factory.mktemp("reference")
    repository = LocalRepository(home / "answers")
    done = generating(served, repository.folder, home, prefect_server).finish()
    assert done.code == 0, done.err
    texts = {key: text for key, (text, _) in whole_rows(repository, LIMIT).items()}
    return Reference(LIMIT, texts, accuracy(repository))


Make = Callable[..., Command]


@pytest.fixture
def on_hub(hub: Hub, served: Path, prefect_server: str, tmp_path: Path) -> Make:
    """Build commands that generate into the test Hub; each `name` has a separate spool."""

    def make(name: str = "here", *arguments: str, **environment: str) -> Command:
        command = list(arguments) or ["generate", "--config", str(served)]
        return Command(
            tmp_path / name,
            [*command, "--answers", f"hf://datasets/{hub.repo_id}"],
            {
                "PREFECT_API_URL": prefect_server,
                "HF_ENDPOINT": hub.endpoint,
                "HF_TOKEN": hub.token,
                "HF_HOME": str(tmp_path / name / "huggingface"),
                "REGRADE_PUBLISH_SECONDS": "0.4",
                **environment,
            },
        )

    return make


@pytest.fixture
def hub_repository(hub: Hub, tmp_path: Path) -> HubRepository:
    return HubRepository(
        hub.repo_id, endpoint=hub.endpoint, token=hub.token, cache=tmp_path / "reading"
    )


@pytest.fixture
def account(request: pytest.FixtureRequest) -> Iterator[Account]:
    """The account of a test; the terminal summary adds up all accounts."""
    account = Account()
    yield account
    request.config.stash.setdefault(ACCOUNTS, []).append(account)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if accounts := terminalreporter.config.stash.get(ACCOUNTS, []):
        total = {what: sum(a.counts[what] for a in accounts) for what in accounts[0].counts}
        terminalreporter.write_line(f"crashes: {told(total)}")
