"""Checkpoints as a training writes them, of the demo model."""

import json
import os
import shutil
import time
from pathlib import Path

from tests.command_line import DEMO


def write(training: Path, name: str, *, age: float = 100.0) -> Path:
    """Write a complete checkpoint whose files are this many seconds old."""
    folder = training / name
    shutil.copytree(DEMO / "regrade-demo", folder)
    step = name.rpartition("-")[2]
    if step.isdecimal():
        (folder / "trainer_state.json").write_text(json.dumps({"global_step": int(step)}))
    for path in folder.iterdir():
        os.utime(path, (time.time() - age,) * 2)
    return folder
