"""An evaluation ends with its training, also with one that is killed."""

import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from regrade.checkpoints import training
from regrade.processes.tree import is_running
from tests.checkpoints.training.trainings import arguments_in
from tests.processes.trees import wait_until

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(280)]


def test_no_evaluation_outlives_a_killed_training_whose_fork_lives_on(
    quick: None, output: Path
) -> None:
    """As of a DataLoader's workers, which hold what they inherit. Other endings: `tests/processes/test_supervisor.py`."""
    from transformers import TrainerState

    pid = os.fork()
    if pid == 0:  # the training
        hook = training.EvaluateCheckpoints(["gsm8k"], environment={"MARK": "1", "SECONDS": "600"})
        hook.on_save(arguments_in(output), TrainerState(global_step=3), None)  # type: ignore[arg-type]
        os.fork()
        time.sleep(20)
        os._exit(0)
    log = output / "regrade-logs/checkpoint-3.log"
    wait_until(lambda: log.exists() and "started" in log.read_text())
    children = psutil.Process(pid).children(recursive=True)
    evaluation = [child for child in children if "MARK" in child.environ()]
    assert len(evaluation) < len(children), "the fork is another child"
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)

    wait_until(lambda: not any(map(is_running, evaluation)), 10)

    assert evaluation
    assert (output / "regrade-kept/tiny-run/checkpoint-3").is_dir(), "for the next start"
