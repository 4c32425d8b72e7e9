"""Checkpoints, and a command that takes the place of `regrade evaluate`."""

import os
import shutil
from pathlib import Path

import pytest

from regrade.checkpoints.training import evaluations
from tests.checkpoints.training.trainings import quick_command
from tests.command_line import DEMO


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluate with a small program instead of `regrade evaluate`, in the environment that a launcher makes."""
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr(evaluations, "evaluation_command", quick_command)
    monkeypatch.setattr("regrade.checkpoints.training.callback.SETTLE", 0.05)
    monkeypatch.setattr("regrade.checkpoints.training.callback.GIVE_UP", 1.5)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Output folder of a training with the checkpoints 1 to 6."""
    folder = tmp_path / "tiny-run"
    for step in range(1, 7):
        checkpoint = folder / f"checkpoint-{step}"
        shutil.copytree(DEMO / "regrade-demo", checkpoint)
        (checkpoint / "trainer_state.json").write_text(f'{{"global_step": {step}}}')
        os.utime(checkpoint / "trainer_state.json", (1e9, 1e9))  # written long ago
    return folder
