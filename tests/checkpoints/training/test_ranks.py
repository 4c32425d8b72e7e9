"""A training with two ranks (torchrun, gloo on the CPU)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import ROOT


@pytest.mark.slow
@pytest.mark.timeout(280)
@pytest.mark.parametrize("wait", [False, True])
def test_of_two_ranks_only_the_first_evaluates(tmp_path: Path, wait: bool) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    hook = {"benchmarks": ["gsm8k"], "wait": wait, "stop_on_failure": True}
    training = {"max_steps": 2, "save_total_limit": 1, "ddp_backend": "gloo"}
    program = ["-m", "tests.checkpoints.training.trainings", str(tmp_path)]

    done = subprocess.run(
        [*launcher, *program, json.dumps(hook), json.dumps(training)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    histories = [json.loads((tmp_path / f"history-{rank}.json").read_text()) for rank in (0, 1)]
    assert histories == [{"1": 0.01, "2": 0.02}, {}]
    processes = len(list((tmp_path / "tiny-run/regrade-logs").glob("*.log")))
    assert processes == 1 if wait else processes in (1, 2)
    assert not (tmp_path / "tiny-run/regrade-kept").exists()
