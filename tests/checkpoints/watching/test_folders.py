"""A folder of checkpoints that a training writes meanwhile."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regrade.checkpoints import KEPT
from regrade.checkpoints.watching.folders import checkpoints, in_folder
from regrade.checkpoints.watching.found import Found
from regrade.settings.errors import SettingsError
from tests.command_line import DEMO


@pytest.fixture
def training(tmp_path: Path) -> Path:
    folder = tmp_path / "run-7"
    folder.mkdir()
    return folder


def write(training: Path, name: str, *, age: float = 100.0) -> Path:
    """Write a complete checkpoint whose files are this many seconds old."""
    folder = training / name
    shutil.copytree(DEMO / "regrade-demo", folder)
    for path in folder.iterdir():
        os.utime(path, (time.time() - age,) * 2)
    return folder


def look(training: Path, settle: float = 60) -> list[Found]:
    return list(checkpoints(training, settle=settle))


def test_checkpoints_come_in_the_order_of_their_steps(training: Path):
    for name in ("checkpoint-1000", "checkpoint-500", "final"):
        write(training, name)

    found = look(training)

    assert [Path(revision.model).name for revision in found] == [
        "final",
        "checkpoint-500",
        "checkpoint-1000",
    ]
    assert {revision.name for revision in found} == {"run-7"}
    assert {revision.waits_for for revision in found} == {None}


def test_a_checkpoint_is_left_until_every_file_is_whole(training: Path):
    written = write(training, "checkpoint-500")
    weights = written / "model.safetensors"
    content = weights.read_bytes()
    names = [path.name for path in sorted(written.iterdir())]
    contents = {name: (written / name).read_bytes() for name in names}
    shutil.rmtree(written)
    written.mkdir()
    reasons = []
    for name in ["config.json", *(set(names) - {"config.json", weights.name})]:
        (written / name).write_bytes(contents[name])
        reasons.append(look(training, settle=0)[0].waits_for)
    for size in (0, 4, 100, len(content) // 2, len(content) - 1):
        weights.write_bytes(content[:size])
        reasons.append(look(training, settle=0)[0].waits_for)

    assert all(reasons)
    assert "'model.safetensors' is shorter than its header says" in reasons
    weights.write_bytes(content)
    (found,) = look(training, settle=0)
    assert found.waits_for is None


def test_a_whole_checkpoint_is_left_until_it_has_settled(training: Path):
    write(training, "checkpoint-500", age=5)

    (found,) = look(training, settle=60)

    assert found.waits_for is not None
    assert "it is left for 60 s without a change" in found.waits_for
    assert look(training, settle=1)[0].waits_for is None


def test_weights_in_parts_wait_for_the_last_part(training: Path):
    folder = write(training, "checkpoint-500")
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")

    (found,) = look(training)

    assert found.waits_for is not None
    assert "'model-00002-of-00002.safetensors'" in found.waits_for


def test_what_is_no_checkpoint_is_left_out(training: Path):
    (training / "logs").mkdir()
    (training / "checkpoint-1").write_text("a file")
    write(training, "tmp-checkpoint-5")
    write(training, ".hidden")
    write(training, KEPT)

    assert look(training) == []


def test_a_checkpoint_that_is_written_again_is_another_revision(training: Path):
    folder = write(training, "checkpoint-500")
    (first,) = look(training)
    (folder / "optimizer.pt").write_bytes(b"decides no answer")
    os.utime(folder / "optimizer.pt", (1e9, 1e9))
    (same,) = look(training)
    os.utime(folder / "model.safetensors", (1e9, 1e9))
    (other,) = look(training)

    assert first.revision == same.revision
    assert other.revision not in ("", first.revision)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path):
    with pytest.raises(SettingsError, match="There is no folder"):
        look(tmp_path / "nowhere")


def test_a_single_model_has_its_own_name(training: Path):
    found = in_folder(write(training, "final"), settle=60)

    assert (found.name, found.waits_for) == ("final", None)


def test_a_machine_that_watches_needs_nothing_of_a_training():
    code = "import sys; import regrade.checkpoints.watching.folders; print('transformers' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False"]
