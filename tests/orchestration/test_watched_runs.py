"""Runs that a watcher starts: those of revisions that are gone count as well."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID, uuid4

from prefect.client.schemas.objects import FlowRun

from regrade.checkpoints.watching.found import Found
from regrade.orchestration.remote.client import Server
from regrade.orchestration.watched_runs import start_runs


class Runs:
    """The server's part that starting runs asks."""

    def __init__(self, *open_runs: UUID) -> None:
        self.open = set(open_runs)
        self.tags: list[list[str]] = []

    def deployment(self, name: str) -> Any:
        return SimpleNamespace(name=name)

    def started_all(self, keys: list[str]) -> dict[str, FlowRun]:
        return {}

    def open_runs(self, deployment: Any, tag: str, most: int) -> set[UUID]:
        return self.open if tag == "watched by nightly" else set()

    def start(self, deployment: Any, parameters: Any, key: str, tags: list[str]) -> Any:
        self.tags.append(tags)
        return SimpleNamespace(id=uuid4())


def statuses(runs: Runs, watcher: str) -> list[str]:
    found = [Found("org/a", f"org/a@{n}", str(n)) for n in range(3)]
    server = cast(Server, runs)
    watched = start_runs(
        server, found, lambda one: {"model": one.model}, at_a_time=2, watcher=watcher
    )
    return [run.status for run in watched]


def test_runs_of_revisions_that_are_gone_take_their_places():
    assert statuses(Runs(uuid4(), uuid4()), "watched by nightly") == ["later"] * 3
    runs = Runs(uuid4())
    assert statuses(runs, "watched by nightly") == ["started", "later", "later"]
    assert runs.tags == [["watched by nightly"]]


def test_runs_of_another_watcher_take_no_places():
    runs = Runs(uuid4(), uuid4())
    assert statuses(runs, "watched by hourly") == ["started", "started", "later"]
