"""Checkpoints that are still being written are not evaluated."""

import shutil
import threading
import time
from pathlib import Path

import pytest

from regrade.hooks.checkpoints import NotWrittenError, drop, keep, wait_until_written
from tests.command_line import DEMO


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "run" / "checkpoint-5"
    shutil.copytree(DEMO / "model", folder)
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
