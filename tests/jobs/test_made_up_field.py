"""A field of a job is declared once, and every flow, form, command and file has it."""

import json
import subprocess
import sys
from pathlib import Path

from tests.command_line import ROOT
from tests.jobs.made_up_field import COMMANDS


def test_a_field_is_everywhere_that_jobs_are(tmp_path: Path):
    command = [sys.executable, "-m", "tests.jobs.made_up_field", str(tmp_path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)

    field = {"title": "State of mind", "description": "How the model feels.", "x-path": True}
    for name, shown in found.pop("flows").items():
        assert (shown is None) == (name == "score_answers"), name
        assert shown is None or field.items() <= shown.items()
    assert found.pop("refused").startswith("regrade: `--mood` should be of the form")
    assert found == {
        "not measured": ["evaluate_model", "generate_answers"],
        "help": [name for name in COMMANDS if name != "score"],
        "option": "./calm",
        "file": "calm",
        "sweep": ["calm", "wild"],
        "tune": "calm",
        "machines": "calm",
    }
