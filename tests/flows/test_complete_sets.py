"""`machines: n` starts no runs for answers that are all stored."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flows import generating
from regrade.answers.local import LocalRepository
from tests.builders import specification
from tests.stored import numbers, publish


@pytest.mark.parametrize(("stored", "is_complete"), [(4, True), (3, False)])
def test_no_machine_is_asked_for_a_set_that_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: int, is_complete: bool
):
    repository = LocalRepository(tmp_path / "answers")
    publish(repository, numbers(0, stored), total=4)
    work = SimpleNamespace(
        repository=repository, plan=SimpleNamespace(specification=specification())
    )
    asked: list[int] = []

    def start_machines(machines: int, _: object) -> list[Any]:
        asked.append(machines)
        return []

    def finish(*_: object) -> None:
        publish(repository, numbers(stored, 4), total=4)

    monkeypatch.setattr(generating, "plan_answers", lambda _: [work])
    monkeypatch.setattr(generating, "engine_no_longer_needed", lambda: None)
    monkeypatch.setattr(generating, "start_machines", start_machines)
    monkeypatch.setattr(generating, "wait_for_machines", finish)
    job: Any = SimpleNamespace(generation_parameters={})

    _, (answers,) = generating.generate_on_machines(job, 3)

    assert answers.manifest.state == "complete"
    assert asked == ([] if is_complete else [3])
