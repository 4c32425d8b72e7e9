"""Models that come while others are evaluated (`regrade evaluate --follow`)."""

import logging
import os
import shutil
import time
from pathlib import Path

import pytest

from regrade.checkpoints import ENDED
from regrade.checkpoints.watching import following
from regrade.checkpoints.watching.following import as_they_come
from regrade.checkpoints.watching.found import Found
from regrade.settings.errors import HubError
from tests.command_line import DEMO


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SETTLE", "POLL", "HUB_POLL"):
        monkeypatch.setattr(following, name, 0.05)


def save(run: Path, step: int, age: float = 60.0) -> Path:
    folder = run / f"checkpoint-{step}"
    shutil.copytree(DEMO / "regrade-demo", folder)
    for file in folder.iterdir():
        os.utime(file, (time.time() - age,) * 2)
    return folder


def test_checkpoints_come_in_the_order_of_their_steps_also_those_written_meanwhile(tmp_path: Path):
    save(tmp_path, 1000)
    coming = as_they_come([f"{tmp_path}/checkpoint-*"], 0.5)
    assert Path(next(coming).model).name == "checkpoint-1000"
    save(tmp_path, 3000)
    save(tmp_path, 2000)
    (tmp_path / "checkpoint-last").symlink_to(tmp_path / "checkpoint-3000")
    assert [Path(found.model).name for found in coming] == ["checkpoint-2000", "checkpoint-3000"]


def test_a_checkpoint_that_is_being_written_is_waited_for_and_an_incomplete_one_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(following, "SETTLE", 0.4)
    save(tmp_path, 1, age=0.0)
    (save(tmp_path, 2) / "config.json").unlink()
    with caplog.at_level(logging.WARNING):
        found = list(as_they_come([f"{tmp_path}/checkpoint-*"], 0.0))
    assert [Path(model.model).name for model in found] == ["checkpoint-1"]
    assert "checkpoint-2 is not evaluated: the folder has no 'config.json'" in caplog.text


def test_the_file_that_ends_a_training_ends_the_wait_once_all_are_done(tmp_path: Path):
    save(tmp_path, 1)
    (tmp_path / ENDED).touch()
    assert len(list(as_they_come([f"{tmp_path}/checkpoint-*"], 1e6))) == 1


def test_a_checkpoint_that_was_removed_may_come_again(tmp_path: Path):
    folder = save(tmp_path, 1)
    coming = as_they_come([f"{tmp_path}/checkpoint-*"], 0.3)
    next(coming)
    shutil.rmtree(folder)
    save(tmp_path, 2)
    assert Path(next(coming).model).name == "checkpoint-2"
    save(tmp_path, 1)
    assert [Path(found.model).name for found in coming] == ["checkpoint-1"]


def test_each_new_commit_of_a_branch_is_a_model_and_a_hub_that_fails_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    commits = iter(["a", "a", None, "b", "b"])

    def on_hub(name: str) -> Found:
        commit = next(commits, "b")
        if commit is None:
            raise HubError("org/name", "asking", "The Hub does not answer.", retryable=True)
        return Found(name, f"{name}@{commit}", commit)

    monkeypatch.setattr(following, "on_hub", on_hub)
    assert [found.model for found in as_they_come(["org/name"], 0.4)] == [
        "org/name@a",
        "org/name@b",
    ]
    assert "The Hub does not answer. Looking again" in caplog.text
