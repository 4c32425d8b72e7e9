"""Checkpoints, and a command that takes the place of `regrade evaluate`."""

from pathlib import Path

import pytest

from regrade.checkpoints.training import evaluations
from tests.checkpoints.training.trainings import quick_command
from tests.checkpoints.writing import write


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluate with a small program instead of `regrade evaluate`, in the environment that a launcher makes."""
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr(evaluations, "evaluation_command", quick_command)
    monkeypatch.setattr("regrade.checkpoints.training.callback.GIVE_UP", 1.5)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Output folder of a training with the checkpoints 1 to 6."""
    for step in range(1, 7):
        write(tmp_path / "tiny-run", f"checkpoint-{step}")
    return tmp_path / "tiny-run"
