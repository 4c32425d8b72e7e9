"""An engine's process that cannot be started gives back its slot and its scratch folder."""

import tempfile
from pathlib import Path

import pytest

from regrade.engines.vllm_process.process import EngineProcess
from regrade.processes.slots import take_slot


@pytest.mark.parametrize("place", ["file/engine.log", "folder"])
def test_a_command_that_cannot_be_started_leaves_neither_slot_nor_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (scratch := tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    waits: list[str] = []
    for _ in range(2):
        slot = take_slot(tmp_path, 1, "an engine", waits.append)
        with pytest.raises((FileExistsError, NotADirectoryError, IsADirectoryError)):
            EngineProcess(["true"], tmp_path / place, slot=slot)
    assert not list(scratch.glob("regrade-engine-*"))
    assert waits == []
