"""The queue of a training's checkpoints."""

import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest

from regrade.checkpoints.found import in_folder
from regrade.checkpoints.training.checkpoints import Queue
from tests.checkpoints.training.trainings import keep
from tests.checkpoints.writing import write


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return write(tmp_path / "run", "checkpoint-5")


def test_a_kept_checkpoint_outlives_the_original_and_has_its_name_below_that_of_the_training(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkpoint / "optimizer.pt").write_bytes(b"large")
    monkeypatch.chdir(checkpoint.parent)  # as for a training in the folder `.`
    kept = keep(Path("checkpoint-5"))
    shutil.rmtree(checkpoint)

    assert kept == Path("regrade-kept/run/checkpoint-5")
    assert not (kept / "optimizer.pt").exists()
    assert in_folder(kept, settle=0).waits_for is None
    Queue(Path()).drop(kept.name)
    assert list(checkpoint.parent.iterdir()) == []


def test_without_hard_links_the_queue_refers_to_the_checkpoint(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.link", Mock(side_effect=OSError("Operation not supported")))
    queue = Queue(checkpoint.parent)
    assert "not supported" in str(queue.put(checkpoint))
    (place,) = queue.places()
    assert place.resolve() == checkpoint
    assert not list(place.parent.glob(".*")), "no part of the links is left"
    queue.drop(place.name)
    assert (checkpoint / "config.json").exists()
    assert not (checkpoint.parent / "regrade-kept").exists()


def test_an_incomplete_checkpoint_waits_in_the_queue_in_its_place(checkpoint: Path) -> None:
    later = (checkpoint / "config.json").rename(checkpoint / "written-later")
    place = keep(checkpoint)
    assert "config.json" in str(in_folder(place, settle=0).waits_for)
    later.rename(checkpoint / "config.json")
    assert in_folder(place, settle=0).waits_for is None


def test_the_queue_is_in_the_order_of_the_steps(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    for name in ("checkpoint-1000", "checkpoint-90", ".checkpoint-3", "checkpoint-last"):
        (queue.folder / name).mkdir(parents=True)
    assert [place.name for place in queue.places()] == ["checkpoint-90", "checkpoint-1000"]
