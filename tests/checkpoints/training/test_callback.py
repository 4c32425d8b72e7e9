"""Evaluate checkpoints of short trainings with `transformers.Trainer` on the CPU, also with two ranks, and of one that is killed."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psutil
import pytest

from regrade.checkpoints import training
from regrade.checkpoints.training.evaluations import EvaluationFailedError
from regrade.processes.tree import is_running
from regrade.settings.errors import SettingsError
from tests.checkpoints.training.trainings import arguments_in, history, save, train
from tests.command_line import ROOT, demo_parameters
from tests.command_line import run as run_command
from tests.processes.trees import wait_until

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(280)]


def test_every_nth_checkpoint_is_evaluated_also_if_the_trainer_deletes_it_before_that(
    quick: None, tmp_path: Path
) -> None:
    hook = training.EvaluateCheckpoints(["gsm8k"], every=2, environment={"SECONDS": "2"})

    trainer = train(tmp_path, hook, save_total_limit=1)

    assert history(trainer) == {2: 0.02, 4: 0.04}
    losses = [logs for logs in trainer.state.log_history if "loss" in logs]
    assert len(losses) == 4, "the losses of the training are logged as well"
    left = {path.name for path in (tmp_path / "tiny-run").iterdir()}
    assert left == {"checkpoint-4", "regrade-logs"}, "the hard links are removed"


def test_only_the_first_rank_evaluates(tmp_path: Path) -> None:
    from transformers import TrainerState

    hook = training.EvaluateCheckpoints(["gsm8k"], stop_on_failure=True)
    save(hook, tmp_path, 1, begun=TrainerState(is_world_process_zero=False))

    with pytest.raises(EvaluationFailedError, match="does not exist"):
        save(hook, tmp_path, 1)


@pytest.mark.slow
@pytest.mark.parametrize("wait", [False, True])
def test_of_two_ranks_only_the_first_evaluates(tmp_path: Path, wait: bool) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    words = [*launcher, "-m", "tests.checkpoints.training.trainings", str(tmp_path), str(wait)]
    done = run_command(words, 240, {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)})

    assert done.code == 0, done.err[-3000:]
    histories = [json.loads((tmp_path / f"history-{rank}.json").read_text()) for rank in (0, 1)]
    assert histories == [{"1": 0.01, "2": 0.02}, {}]
    processes = len(list((tmp_path / "tiny-run/regrade-logs").glob("*.log")))
    assert processes == 1 if wait else processes in (1, 2)
    assert not (tmp_path / "tiny-run/regrade-kept").exists()


def test_the_example_in_the_docs_runs() -> None:
    trainer, trained_with = Mock(), []
    trainer.callback_handler.callbacks = [None]
    trainer.train = lambda: trained_with.extend(trainer.callback_handler.callbacks)

    page = (ROOT / "docs" / "ci.md").read_text()
    exec(page.split("```python\n")[1].split("```")[0], {"trainer": trainer})
    (hook, _) = trained_with
    assert hook.every == 2
    assert hook.arguments[:2] == ("--benchmark", "gsm8k_chat")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"benchmarks": []}, "give `benchmarks` or `arguments`"),
        ({"benchmarks": ["gsm8"]}, "Did you mean 'gsm8k'?"),
        ({"limit": 0}, "`limit` should be 1 or more, not 0"),
        ({"every": True}, "`every` should be a whole number, not true"),
        ({"max_waiting": -1}, "`max_waiting` should be 0 or more, not -1"),
        ({"between": "rest"}, "`between` should be 'stay', 'sleep', 'deep-sleep' or 'end'"),
        ({"arguments": "--fresh"}, "`arguments` should be a list"),
        ({"environment": "A=1"}, "`environment` should be a group of settings"),
    ],
)
def test_impossible_arguments_are_refused(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError) as error:
        training.EvaluateCheckpoints(**{"benchmarks": ["gsm8k"], **arguments})
    assert says in str(error.value)


def test_a_text_is_one_benchmark_also_a_task_of_the_harness() -> None:
    for name in ("gsm8k", "lm_eval:arc_easy"):
        assert training.EvaluateCheckpoints(name).arguments == ("--benchmark", name)


@pytest.mark.slow
@pytest.mark.vllm
@pytest.mark.timeout(900)
def test_a_checkpoint_is_evaluated_with_real_vllm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGRADE_SPOOL", str(tmp_path / "spool"))
    demo = demo_parameters() | {"answers": str(tmp_path / "answers")}
    del demo["model"]
    config = tmp_path / "evaluation.yaml"
    config.write_text(json.dumps({**demo, "datasets": demo["datasets"][:1]}))
    arguments = ["--config", str(config)]
    hook = training.EvaluateCheckpoints(limit=8, arguments=arguments, stop_on_failure=True)

    trainer = train(tmp_path, hook, max_steps=1)

    questions = "regrade/demo-arithmetic/n"
    (logs,) = [logs for logs in trainer.state.log_history if questions in logs]
    assert (logs["step"], logs[questions]) == (1, 8)
    (manifest,) = (tmp_path / "answers").rglob("manifest.json")
    specified = json.loads(manifest.read_text())["specification"]
    assert specified["model"]["name"] == "tiny-run/checkpoint-1"


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
