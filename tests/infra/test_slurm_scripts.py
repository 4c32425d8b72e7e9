"""The scripts for Slurm, with stand-ins for `regrade` and Slurm's commands; tests/infra/test_slurm.py has the real Slurm."""

import os
import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.command_line import ROOT, run
from tests.processes.trees import wait_until

SCRIPTS = ROOT / "infra/slurm"
REGRADE = """#!/bin/bash
echo "$@" > "$NOTES/arguments"
echo "$REGRADE_SPOOL $PREFECT_SERVER_DATABASE_CONNECTION_URL" > "$NOTES/settings"
trap 'exit {on_term}' TERM
touch "$NOTES/began"
for _ in $(seq {tenths}); do sleep 0.1; done
exit {status}
"""


@dataclass
class Task:
    """A task of an array, as Slurm would start it."""

    folder: Path
    status: int = 0
    on_term: int = 143
    tenths: int = 0
    state: str = "RUNNING"

    def run(self, *, term: bool = False) -> tuple[int, str]:
        """Return the exit code of the script and its output."""
        programs = self.folder / "bin"
        programs.mkdir()
        values = {"status": self.status, "on_term": self.on_term, "tenths": self.tenths}
        commands = {
            "regrade": REGRADE.format(**values),
            "squeue": f'#!/bin/bash\necho "$@" > "$NOTES/asked"\necho {self.state}\n',
            "scontrol": '#!/bin/bash\necho "$@" > "$NOTES/requeued"\n',
        }
        for name, text in commands.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "NOTES": str(self.folder),
            "TMPDIR": str(self.folder),
            "SLURM_SUBMIT_DIR": str(self.folder),
            "SLURM_JOB_ID": "18",
            "SLURM_ARRAY_JOB_ID": "17",
            "SLURM_ARRAY_TASK_ID": "2",
        }
        command = ["bash", str(SCRIPTS / "evaluate.sbatch"), "--config", "a file.yaml"]
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            if term:
                wait_until((self.folder / "began").exists)
                process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=60)
        return process.returncode, output

    @property
    def requeued(self) -> bool:
        return (self.folder / "requeued").exists()


def test_the_options_reach_regrade_with_a_share(tmp_path: Path):
    task = Task(tmp_path)
    assert task.run() == (0, "")
    said = (tmp_path / "arguments").read_text()
    assert said == "evaluate --share auto --config a file.yaml\n"
    spool, database = (tmp_path / "settings").read_text().split()
    assert spool == f"{tmp_path}/regrade-spool"
    assert database.startswith(f"sqlite+aiosqlite:///{tmp_path}/")
    assert not Path(database.removeprefix("sqlite+aiosqlite:///")).parent.exists()
    assert not task.requeued


def test_the_end_of_the_time_requeues_the_task(tmp_path: Path):
    task = Task(tmp_path, tenths=600)
    code, output = task.run(term=True)
    assert code == 143
    assert "it goes on in another turn" in output
    assert (tmp_path / "asked").read_text().endswith("--jobs=17_2\n")
    assert (tmp_path / "requeued").read_text() == "requeue 17_2\n"


@pytest.mark.parametrize("state", ["CANCELLED", "COMPLETING", "PREEMPTED", ""])
def test_a_task_that_slurm_ends_is_not_requeued_by_the_script(tmp_path: Path, state: str):
    task = Task(tmp_path, tenths=600, state=state)
    code, _ = task.run(term=True)
    assert code == 143
    assert not task.requeued


@pytest.mark.parametrize(
    ("ending", "code"),
    [({"tenths": 600, "on_term": 0}, 0), ({"status": 2}, 2)],
    ids=["done when the signal came", "an error"],
)
def test_a_task_that_ended_by_itself_is_not_requeued(
    tmp_path: Path, ending: dict[str, int], code: int
):
    task = Task(tmp_path, **ending)
    assert task.run(term="tenths" in ending)[0] == code
    assert not task.requeued


def test_a_worker_without_a_server_says_what_is_missing():
    done = run(["bash", str(SCRIPTS / "worker.sbatch")], 60, {"PREFECT_API_URL": ""})
    assert done.code == 2
    assert "PREFECT_API_URL is not set" in done.err


@pytest.mark.parametrize("name", ["evaluate", "worker"])
def test_the_scripts_ask_to_be_requeued_and_for_a_signal_before_the_end(name: str):
    script = (SCRIPTS / f"{name}.sbatch").read_text()
    assert re.search(r"^#SBATCH --requeue$", script, re.MULTILINE)
    assert re.search(r"^#SBATCH --signal=B:TERM@\d+$", script, re.MULTILINE)
    assert re.search(r"^#SBATCH --open-mode=append$", script, re.MULTILINE)
