"""An evaluation ends with its training, also with one that is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import psutil
import pytest

from regrade.checkpoints import training
from regrade.processes.tree import is_running
from tests.checkpoints.training.trainings import arguments_in
from tests.command_line import ROOT, demo_parameters
from tests.processes.trees import wait_until

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(280)]


def test_no_evaluation_outlives_a_killed_training_whose_fork_lives_on(
    quick: None, output: Path
) -> None:
    """As of a DataLoader's workers, which hold what they inherit. Other endings: `tests/processes/test_supervisor.py`."""
    from transformers import TrainerState

    pid = os.fork()
    if pid == 0:  # the training
        hook = training.EvaluateCheckpoints(["sums"], environment={"MARK": "1", "SECONDS": "600"})
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

    wait_until(lambda: not alive(evaluation), 10)

    assert evaluation
    assert (output / "regrade-kept/tiny-run/checkpoint-3").is_dir(), "for the next start"


@pytest.mark.slow
@pytest.mark.vllm
@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_real_evaluation_with_vllm_ends_with_its_training(tmp_path: Path, number: int) -> None:
    demo = demo_parameters()
    del demo["model"]
    config = tmp_path / "evaluation.yaml"
    config.write_text(json.dumps({**demo, "datasets": demo["datasets"][:1]}))
    hook = {"answers": str(tmp_path / "answers"), "arguments": ["--config", str(config)]}
    program = [sys.executable, "-m", "tests.checkpoints.training.trainings", str(tmp_path)]
    command = [*program, json.dumps(hook), json.dumps({"max_steps": 1}), "real"]
    environment = {**os.environ, "REGRADE_SPOOL": str(tmp_path / "spool")}
    with subprocess.Popen(command, cwd=ROOT, env=environment) as training:
        tree: set[psutil.Process] = set()

        def has_an_engine() -> bool:
            assert training.poll() is None
            time.sleep(0.5)
            tree.update(psutil.Process(training.pid).children(recursive=True))
            return any("vllm_process" in " ".join(process.cmdline()) for process in alive(tree))

        wait_until(has_an_engine, 400)
        training.send_signal(number)
        training.wait(30)
        wait_until(lambda: not alive(tree), 30)

    assert (tmp_path / "tiny-run/regrade-kept/tiny-run/checkpoint-1").is_dir()
    assert not list((tmp_path / "answers").rglob("manifest.json")), "it ended before the evaluation"


def alive(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    return [process for process in processes if is_running(process)]
