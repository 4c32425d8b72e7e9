"""Checkpoints that are still being written are not evaluated."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from regrade.checkpoints.found import in_folder
from regrade.checkpoints.training.checkpoints import Queue
from tests.checkpoints.training.trainings import keep
from tests.command_line import DEMO


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "run" / "checkpoint-5"
    shutil.copytree(DEMO / "regrade-demo", folder)
    (folder / "trainer_state.json").write_text("{}")
    (folder / "optimizer.pt").write_bytes(b"large")
    return folder


def problem_of(folder: Path) -> str | None:
    return in_folder(folder, settle=0).waits_for


@pytest.mark.parametrize(
    "header",
    [
        b"[]",
        b"\xff\xfe",
        b'{"w": 1}',
        b'{"w": {"dtype": "F32"}}',
        b'{"w": {"data_offsets": [0]}}',
        b'{"__metadata__": []}',
    ],
)
def test_weights_with_an_odd_header_are_refused(checkpoint: Path, header: bytes) -> None:
    weights = checkpoint / "model.safetensors"
    weights.write_bytes(len(header).to_bytes(8, "little") + header)
    assert problem_of(checkpoint) == "'model.safetensors' has no safetensors header"


def test_weights_that_lack_the_end_of_a_tensor_are_refused(checkpoint: Path) -> None:
    weights = checkpoint / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    assert problem_of(checkpoint) == "'model.safetensors' is shorter than its header says"


def test_a_header_of_absurd_length_is_not_read(checkpoint: Path) -> None:
    weights = checkpoint / "model.safetensors"
    with weights.open("r+b") as file:
        file.write((2**40).to_bytes(8, "little"))
        file.truncate(2**40 + 8)  # a sparse file
    assert "has a header of 1099511627776 bytes" in (problem_of(checkpoint) or "")


def test_a_checkpoint_with_metadata_and_any_tensor_names_is_whole(checkpoint: Path) -> None:
    tensors = {"metadata": np.zeros(2), "model_config": np.zeros(3), "data_offsets": np.zeros(1)}
    save_file(tensors, checkpoint / "model.safetensors", metadata={"format": "pt"})
    assert problem_of(checkpoint) is None


def test_the_check_does_not_read_the_weights(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regrade.models.fingerprints.file_sha256", lambda *_: 1 / 0)
    assert problem_of(checkpoint) is None


def test_a_deleted_checkpoint_has_not_changed_for_long(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint)
    found = in_folder(checkpoint, settle=1)
    assert "does not exist" in (found.waits_for or "")
    assert found.age > 1e6


def test_a_kept_checkpoint_outlives_the_original_and_has_the_same_name(checkpoint: Path) -> None:
    kept = keep(checkpoint)
    size = (checkpoint / "model.safetensors").stat().st_size
    shutil.rmtree(checkpoint)

    assert (kept.parent.name, kept.name) == ("run", "checkpoint-5")
    assert (kept / "model.safetensors").stat().st_size == size
    assert not (kept / "optimizer.pt").exists()
    assert problem_of(kept) is None
    Queue(checkpoint.parent).drop(kept.name)
    assert list(checkpoint.parent.iterdir()) == []


def test_without_hard_links_the_queue_refers_to_the_checkpoint(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: object) -> None:
        raise OSError("Operation not supported")

    monkeypatch.setattr("os.link", link)
    queue = Queue(checkpoint.parent)
    assert "not supported" in str(queue.put(checkpoint))
    (place,) = queue.places()
    assert place.resolve() == checkpoint
    assert not list(place.parent.glob(".*")), "no part of the links is left"
    queue.drop(place.name)
    assert (checkpoint / "config.json").exists()
    assert not (checkpoint.parent / "regrade-kept").exists()


def test_a_checkpoint_that_is_not_complete_waits_in_the_queue_in_its_place(
    checkpoint: Path,
) -> None:
    config = checkpoint / "config.json"
    content = config.read_bytes()
    config.unlink()
    place = keep(checkpoint)
    assert "config.json" in (problem_of(place) or "")
    config.write_bytes(content)
    assert problem_of(place) is None


def test_the_queue_is_in_the_order_of_the_steps(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    for name in ("checkpoint-1000", "checkpoint-90", ".checkpoint-3", "checkpoint-last"):
        (queue.folder / name).mkdir(parents=True)
    assert [place.name for place in queue.places()] == ["checkpoint-90", "checkpoint-1000"]
