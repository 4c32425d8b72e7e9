"""Checkpoints that are still being written are not evaluated."""

import shutil
import threading
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from regrade.checkpoints.training.checkpoints import (
    NotWrittenError,
    drop,
    find_problem,
    keep,
    wait_until_written,
)
from tests.command_line import DEMO


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "run" / "checkpoint-5"
    shutil.copytree(DEMO / "regrade-demo", folder)
    (folder / "trainer_state.json").write_text("{}")
    (folder / "optimizer.pt").write_bytes(b"large")
    return folder


def test_a_complete_checkpoint_is_accepted_at_once(checkpoint: Path) -> None:
    wait_until_written(checkpoint, timeout=20, stable=0.05)


def test_a_checkpoint_is_accepted_when_its_weights_are_complete(checkpoint: Path) -> None:
    weights = checkpoint / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[: len(content) // 2])

    def write() -> None:
        time.sleep(0.5)
        weights.write_bytes(content)

    writer = threading.Thread(target=write)
    writer.start()
    wait_until_written(checkpoint, timeout=60, stable=0.3)
    assert weights.stat().st_size == len(content)
    writer.join()


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("trainer_state.json", "has no 'trainer_state.json', which is written last"),
        ("config.json", "has no 'config.json'"),
        ("model.safetensors", "has no weights"),
        ("tokenizer.json", "has no tokenizer"),
    ],
)
def test_the_error_names_the_missing_part(checkpoint: Path, missing: str, message: str) -> None:
    (checkpoint / missing).unlink()
    with pytest.raises(NotWrittenError, match=message):
        wait_until_written(checkpoint, timeout=0.3, stable=0.05)


@pytest.mark.parametrize("length", [0, 5, 100, -1])
def test_truncated_weights_are_refused(checkpoint: Path, length: int) -> None:
    weights = checkpoint / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:length])
    with pytest.raises(NotWrittenError, match="shorter than its header says"):
        wait_until_written(checkpoint, timeout=0.3, stable=0.05)


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
    assert find_problem(checkpoint) == "'model.safetensors' has no safetensors header"


def test_a_header_of_absurd_length_is_not_read(checkpoint: Path) -> None:
    weights = checkpoint / "model.safetensors"
    with weights.open("r+b") as file:
        file.write((2**40).to_bytes(8, "little"))
        file.truncate(2**40 + 8)  # a sparse file
    assert "has a header of 1099511627776 bytes" in (find_problem(checkpoint) or "")


def test_a_file_that_vanishes_is_a_reason_to_wait(checkpoint: Path) -> None:
    (checkpoint / "model-2.safetensors").symlink_to("renamed-meanwhile")
    assert "a file cannot be read" in (find_problem(checkpoint) or "")


def test_a_checkpoint_with_metadata_and_any_tensor_names_is_whole(checkpoint: Path) -> None:
    tensors = {
        "metadata": torch.zeros(2),
        "model_config": torch.zeros(3),
        "data_offsets": torch.zeros(1),
    }
    save_file(tensors, checkpoint / "model.safetensors", metadata={"format": "pt"})
    assert find_problem(checkpoint) is None


def test_the_check_does_not_read_the_weights(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regrade.models.fingerprints.file_sha256", lambda *_: 1 / 0)
    assert find_problem(checkpoint) is None


def test_a_deleted_checkpoint_is_an_error_at_once(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint)
    begin = time.monotonic()
    with pytest.raises(NotWrittenError, match="does not exist"):
        wait_until_written(checkpoint, timeout=600)
    assert time.monotonic() - begin < 60


def test_a_kept_checkpoint_outlives_the_original_and_has_the_same_name(checkpoint: Path) -> None:
    kept = keep(checkpoint)
    size = (checkpoint / "model.safetensors").stat().st_size
    shutil.rmtree(checkpoint)

    assert (kept.parent.name, kept.name) == ("run", "checkpoint-5")
    assert (kept / "model.safetensors").stat().st_size == size
    assert not (kept / "optimizer.pt").exists()
    wait_until_written(kept, timeout=20, stable=0.05)
    drop(kept)
    assert list(checkpoint.parent.iterdir()) == []
