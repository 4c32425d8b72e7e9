"""The weights are read into the page cache while vLLM is imported."""

import os
import queue
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regrade.engines.vllm_process import worker
from regrade.engines.vllm_process.loading import prefetch_weights

BYTES = 1 << 25


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A checkpoint that is on the disk, and not in the page cache."""
    path = tmp_path / "model-00001-of-00001.safetensors"
    path.write_bytes(os.urandom(BYTES))
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return path


def opened(weights: Path, **extra: Any) -> dict[str, Any]:
    return {"model": str(weights.parent), "extra": extra}


def cached(path: Path) -> bool:
    """True if the last page of a file is in the page cache."""
    with path.open("rb") as file:
        try:
            return os.preadv(file.fileno(), [bytearray(512)], BYTES - 4096, os.RWF_NOWAIT) > 0
        except BlockingIOError:
            return False
        except OSError:
            pytest.skip("this file system does not tell what is cached")


def test_the_weights_are_in_memory_when_vllm_reads_them(weights: Path):
    if cached(weights):
        pytest.skip("this file system keeps all files in memory")
    thread = prefetch_weights(opened(weights))
    assert thread is not None
    thread.join(30)
    assert cached(weights)


def test_the_worker_reads_the_files_of_a_later_model_that_it_is_told(
    weights: Path, monkeypatch: pytest.MonkeyPatch
):
    read: queue.SimpleQueue[list[Path]] = queue.SimpleQueue()
    monkeypatch.setattr("regrade.engines.vllm_process.loading._read", read.put)
    messages: Any = SimpleNamespace(get=iter([{"type": "read_ahead", **opened(weights)}]).__next__)
    nothing: Any = None

    with pytest.raises(StopIteration):  # no further message
        worker._read(nothing, messages, nothing, nothing, nothing)

    assert read.get(timeout=30) == [weights]


def test_weights_that_do_not_fit_or_are_not_read_stay_on_the_disk(
    weights: Path, monkeypatch: pytest.MonkeyPatch
):
    assert prefetch_weights(opened(weights, load_format="dummy")) is None
    assert prefetch_weights({"model": "org/name", "extra": {}}) is None
    monkeypatch.setattr("regrade.engines.vllm_process.loading._SHARE", 1e-9)
    assert prefetch_weights(opened(weights)) is None


def test_an_unreadable_checkpoint_is_left_to_vllm(weights: Path):
    weights.unlink()
    weights.symlink_to("missing")
    assert prefetch_weights(opened(weights)) is None
