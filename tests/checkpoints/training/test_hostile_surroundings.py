"""Nothing that an evaluation meets ends the training: vanished files, odd headers, a full disk, a missing program."""

import json
import logging
import os
import resource
import shutil
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from regrade.checkpoints import training
from regrade.checkpoints.training import evaluations
from regrade.checkpoints.training.checkpoints import Queue
from regrade.checkpoints.training.evaluations import Evaluation, EvaluationFailedError, metrics_of
from tests.checkpoints.training.trainings import arguments_in

if TYPE_CHECKING:
    from transformers import TrainerState

pytestmark = [pytest.mark.filterwarnings("ignore")]


def save(
    hook: "training.EvaluateCheckpoints", output: Path, *steps: int, **arguments: Any
) -> "TrainerState":
    """Call the hook like a training that saves checkpoints at these steps and ends."""
    from transformers import TrainerControl, TrainerState

    chosen = arguments_in(output, **arguments)
    state, control = TrainerState(), TrainerControl()
    hook.on_train_begin(chosen, state, control)
    for step in steps:
        state.global_step = step
        hook.on_save(chosen, state, control)
        hook.on_step_end(chosen, state, control)
    hook.on_train_end(chosen, state, control)
    return state


def steps(state: "TrainerState") -> list[int]:
    return [logs["step"] for logs in state.log_history]


@pytest.fixture
def hook(quick: None) -> "training.EvaluateCheckpoints":
    return training.EvaluateCheckpoints(["gsm8k"])


def test_a_command_that_ends_before_it_names_a_checkpoint_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as for a benchmark that does not exist: with `--json`, the command prints its error where results would be."""
    script = (
        """print('{"error": "Benchmark sumz is not installed."}'); raise SystemExit('no sumz')"""
    )
    command = (sys.executable, "-c", script)
    monkeypatch.setattr(evaluations, "evaluation_command", lambda _: command)
    evaluation = Evaluation("checkpoint-7", (), {}, tmp_path / "logs/first.log")
    assert evaluation.has_ended(within=60)

    ((checkpoint, metrics, error),) = evaluation.outcomes()

    assert (checkpoint, metrics) == ("checkpoint-7", {})
    assert error is not None
    assert error.startswith("exit code 1: no sumz")
    assert list(evaluation.outcomes()) == []


def vanish(weights: Path) -> None:
    weights.unlink()
    weights.symlink_to("renamed-meanwhile")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (vanish, "the folder has no weights"),
        (lambda weights: shutil.rmtree(weights.parent), "the folder does not exist"),
    ],
)
def test_an_odd_checkpoint_is_named_and_the_next_is_evaluated(
    hook: "training.EvaluateCheckpoints",
    output: Path,
    caplog: pytest.LogCaptureFixture,
    change: Callable[[Path], object],
    message: str,
) -> None:
    change(output / "checkpoint-1/model.safetensors")

    state = save(hook, output, 1, 2, save_total_limit=1)

    assert steps(state) == [2]
    assert "checkpoint-1 was not evaluated" in caplog.text
    assert message in caplog.text


def test_an_evaluation_that_dies_is_a_warning_with_the_last_line_of_its_log_and_the_next_begins_anew(
    quick: None, output: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = save(training.EvaluateCheckpoints(["gsm8k"], arguments=["--die"]), output, 1, 2, 3)
    assert steps(state) == [2, 3]
    message = "checkpoint-1 was not evaluated: exit code 1: the engine ended: out of memory"
    assert message in caplog.text
    assert "Traceback" not in caplog.text
    assert {log.name for log in (output / "regrade-logs").glob("*.log")} == {
        "checkpoint-1.log",
        "checkpoint-2.log",
    }


@pytest.mark.parametrize(
    ("arguments", "between"),
    [
        ({}, "stay"),
        ({"wait": True}, "end"),
        ({"wait": True, "between": "deep-sleep"}, "deep-sleep"),
    ],
)
def test_one_process_evaluates_all_and_its_engine_does_what_was_set_between_them(
    quick: None, output: Path, arguments: dict[str, Any], between: str
) -> None:
    hook = training.EvaluateCheckpoints(["gsm8k"], **arguments)
    assert steps(save(hook, output, 1, 2, 3)) == [1, 2, 3]
    (log,) = (output / "regrade-logs").glob("*.log")
    assert log.name == "checkpoint-1.log"
    assert f"between: {between}\n" in log.read_text()
    assert log.read_text().endswith("no further checkpoints\n"), "it was told, and not killed"
    printed = json.loads(log.with_suffix(".json").read_text().splitlines()[-1])
    assert printed["answer_sets"][0]["benchmark"] == "sums"
    assert not (output / "regrade-kept").exists()


def test_a_missing_program_is_a_warning(
    hook: "training.EvaluateCheckpoints",
    output: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(evaluations, "evaluation_command", lambda *_: ("/nowhere/regrade",))

    assert steps(save(hook, output, 1)) == []
    assert "No such file or directory: '/nowhere/regrade'" in caplog.text


def test_an_unexpected_error_has_its_traceback_and_the_next_checkpoint_is_evaluated(
    hook: "training.EvaluateCheckpoints",
    output: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put = Queue.put

    def fail_once(queue: Queue, checkpoint: Path) -> str | None:
        return put(queue, checkpoint) if checkpoint.name != "checkpoint-1" else {}["a bug"]

    monkeypatch.setattr(Queue, "put", fail_once)

    assert steps(save(hook, output, 1, 2)) == [2]
    assert "KeyError" in caplog.text
    assert "Traceback" in caplog.text


def test_a_reporter_that_fails_does_not_end_the_training(
    hook: "training.EvaluateCheckpoints", output: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Stub:
        def __init__(self) -> None:
            self.callback_handler = self
            self.callbacks: list[Any] = []

        def on_log(self, *_: Any) -> None:
            raise ConnectionError("MLflow is gone")

    trainer = Stub()
    hook.attach(trainer)  # type: ignore[arg-type]

    assert steps(save(hook, output, 1, 2)) == [1, 2]
    assert "MLflow is gone" in caplog.text


def in_a_fork(action: Callable[[], object]) -> str:
    """Run an action in a fork of this process, and return the traceback of what it raised, empty if nothing."""
    reading, writing = os.pipe()  # limits on the size of files do not hold for a pipe
    pid = os.fork()
    if pid == 0:
        try:
            action()
        except BaseException:  # noqa: BLE001 - the test shows it
            os.write(writing, traceback.format_exc().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        raised = told.read()
    assert os.waitpid(pid, 0)[1] == 0
    return raised


def test_a_disk_on_which_nothing_can_be_written_does_not_end_the_training(
    hook: "training.EvaluateCheckpoints", output: Path
) -> None:
    def train() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # EFBIG instead of ENOSPC
        assert steps(save(hook, output, 1, 2, save_total_limit=1)) == []

    assert in_a_fork(train) == ""
    assert not (output / "regrade-kept").exists()


def test_folders_that_cannot_be_made_do_not_end_the_training(
    hook: "training.EvaluateCheckpoints", output: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("regrade-kept", "regrade-logs"):
        (output / name).write_text("a file in the place of the folder")

    assert steps(save(hook, output, 1, save_total_limit=1)) == []

    assert "checkpoint-1 was not evaluated" in caplog.text
    assert "regrade-kept" in caplog.text


def test_only_stop_on_failure_ends_the_training(quick: None, output: Path) -> None:
    hook = training.EvaluateCheckpoints(["gsm8k"], arguments=["--fail"], stop_on_failure=True)
    with pytest.raises(EvaluationFailedError, match="Evaluation of checkpoint-1: out of memory"):
        save(hook, output, 1)


def test_a_skipped_checkpoint_is_named_with_the_command_that_evaluates_it(
    quick: None, output: Path, caplog: pytest.LogCaptureFixture
) -> None:
    slow = training.EvaluateCheckpoints(
        ["gsm8k"], limit=8, environment={"SECONDS": "1"}, max_waiting=1, answers="my answers"
    )

    with caplog.at_level(logging.WARNING, "regrade.hooks"):
        state = save(slow, output, 1, 2, 3, 4)

    assert steps(state) == [1, 4]
    assert "checkpoint-2 is not evaluated, because newer checkpoints wait" in caplog.text
    command = "regrade evaluate --model {} --benchmark gsm8k --answers 'my answers' --limit 8"
    assert command.format(output / "checkpoint-3") in caplog.text
    assert not (output / "regrade-kept").exists()


@pytest.mark.parametrize(
    ("verdict", "number"), [("pass", 0), ("regression", 1), ("cannot tell", 2)]
)
def test_a_verdict_is_logged_as_a_number(verdict: str, number: int) -> None:
    document = {"answer_sets": [], "gate": {"verdict": verdict, "summary": "s"}}
    assert metrics_of(document) == {"regrade/gate": number}
