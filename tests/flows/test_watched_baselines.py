"""The baseline that `watch-models` passes on: none as long as it does not exist in the baseline's repository."""

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from flows import watch_models as flow
from flows.watch_models import WatchGate
from regrade.answers.aliases import move_alias
from regrade.answers.local import LocalRepository
from regrade.checkpoints.watching.found import Found
from regrade.settings import DatasetBenchmark
from tests.command_line import DEMO
from tests.stored import numbers, publish

Parameters = Callable[[Found], Mapping[str, Any]]


@pytest.fixture
def gate_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Look with gate settings, and return the gate that the run of the only checkpoint gets."""
    checkpoint = tmp_path / "run" / "checkpoint-500"
    shutil.copytree(DEMO / "regrade-demo", checkpoint)
    for path in checkpoint.iterdir():
        os.utime(path, (time.time() - 100,) * 2)
    passed: list[Mapping[str, Any]] = []

    def start_runs(_: object, found: Sequence[Found], parameters: Parameters, **more: Any) -> Any:
        passed.extend(parameters(revision) for revision in found)
        assert more["watcher"] == "watched by watch-models"
        return []

    monkeypatch.setattr(flow, "connected", lambda _: nullcontext(None))
    monkeypatch.setattr(flow, "start_runs", start_runs)
    monkeypatch.setattr(flow, "show", lambda *_: None)

    def look(**settings: Any) -> Any:
        flow.watch_models.fn(
            folders=(str(tmp_path / "run"),),
            datasets=(DatasetBenchmark(name="sums", path="unused"),),
            answers=str(tmp_path / "answers"),
            gate=WatchGate(**settings),
        )
        return passed[-1].get("gate")

    return look


def test_aliases_are_looked_for_where_the_gate_says(gate_of: Any, tmp_path: Path):
    elsewhere = LocalRepository(tmp_path / "base")
    there = {"base_answers": elsewhere.uri}
    assert gate_of(**there) is None
    move_alias(elsewhere, "last-good-run", [publish(elsewhere, numbers(0, 3))])
    assert gate_of(**there) == {"baseline": "last-good-run", "base_answers": elsewhere.uri}
    assert gate_of() is None


def test_a_baseline_that_does_not_exist_yet_gives_no_verdict(gate_of: Any, tmp_path: Path):
    assert gate_of(baseline="last-good") is None
    repository = LocalRepository(tmp_path / "answers")
    stored = publish(repository, numbers(0, 3))
    assert gate_of(baseline="last-good") is None
    assert gate_of(baseline="last-good", promote=True) == {"baseline": "last-good", "promote": True}
    move_alias(repository, "last-good", [stored])
    assert gate_of(baseline="last-good") == {"baseline": "last-good"}


def test_a_model_can_be_the_baseline(gate_of: Any, tmp_path: Path):
    publish(LocalRepository(tmp_path / "answers"), numbers(0, 3))
    assert gate_of(baseline="org/tiny") == {"baseline": "org/tiny"}
