"""`machines: n` starts no runs for answers that are all stored."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flows import generating
from regrade.answers.local import LocalRepository
from regrade.engines.vllm import VllmEngine
from tests.builders import specification
from tests.stored import numbers, publish
from tests.sums import plan_of


@pytest.mark.parametrize(("stored", "is_complete"), [(4, True), (3, False)])
@pytest.mark.parametrize("dtype", [{}, {"dtype": "float32"}])
def test_no_machine_is_asked_for_a_set_that_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: int, is_complete: bool, dtype: Any
):
    """A coordinator with vLLM for CPUs plans in float32; workers with GPUs call the same answers otherwise."""
    planned = specification().model_copy(update={"engine": {**specification().engine, **dtype}})
    repository = LocalRepository(tmp_path / "answers")
    publish(repository, numbers(0, stored), total=4)
    work = SimpleNamespace(repository=repository, plan=replace(plan_of(4), specification=planned))
    asked: list[int] = []
    checked: list[Any] = []

    def start_machines(machines: int, _: object) -> list[Any]:
        asked.append(machines)
        return []

    def finish(*_: object) -> None:
        publish(repository, numbers(stored, 4), total=4)

    monkeypatch.setattr(generating, "plan_answers", lambda _: [work])
    monkeypatch.setattr(generating, "engine_no_longer_needed", lambda: None)
    monkeypatch.setattr(generating, "start_machines", start_machines)
    monkeypatch.setattr(generating, "wait_for_machines", finish)
    job: Any = SimpleNamespace(generation_parameters={}, engine=VllmEngine())

    _, (answers,) = generating.generate_on_machines(job, 3, checked.append)

    assert answers.manifest.state == "complete"
    assert work.plan.specification.answer_set_id == answers.manifest.answer_set_id
    assert asked == ([] if is_complete else [3])
    assert checked == [[work]]
