"""Nothing that an evaluation meets ends the training: vanished files, odd headers, a full disk, a missing program."""

import json
import multiprocessing
import os
import resource
import shutil
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from regrade.checkpoints import training
from regrade.checkpoints.training import evaluations
from regrade.checkpoints.training.evaluations import EvaluationFailedError, metrics_of
from tests.checkpoints.training.trainings import save

if TYPE_CHECKING:
    from transformers import TrainerState

pytestmark = [pytest.mark.filterwarnings("ignore")]


def steps(state: "TrainerState") -> list[int]:
    return [logs["step"] for logs in state.log_history]


@pytest.fixture
def hook(quick: None) -> "training.EvaluateCheckpoints":
    return training.EvaluateCheckpoints(["gsm8k"])


def die(_: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("DIES", "1")


def vanish(output: Path, _: pytest.MonkeyPatch) -> None:
    weights = output / "checkpoint-1/model.safetensors"
    weights.unlink()
    weights.symlink_to("renamed-meanwhile")


def without_folder(output: Path, _: pytest.MonkeyPatch) -> None:
    shutil.rmtree(output / "checkpoint-1")


def without_program(_: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(evaluations, "evaluation_command", lambda *_: ("/nowhere/regrade",))


def without_benchmark(_: Path, patch: pytest.MonkeyPatch) -> None:
    """With `--json`, the command prints its error where results would be."""
    document = '{"error": "Benchmark sumz is not installed."}'
    command = (sys.executable, "-c", f"print({document!r}); raise SystemExit('no sumz')")
    patch.setattr(evaluations, "evaluation_command", lambda _: command)


def with_a_bug(_: Path, patch: pytest.MonkeyPatch) -> None:
    find_missing = Mock(side_effect=[KeyError("a bug"), None])
    patch.setattr("regrade.checkpoints.training.checkpoints.find_missing", find_missing)


def with_files_in_place_of_folders(output: Path, _: pytest.MonkeyPatch) -> None:
    for name in ("regrade-kept", "regrade-logs"):
        (output / name).write_text("a file in the place of the folder")


@pytest.mark.parametrize(
    ("break_it", "evaluated", "told"),
    [
        (die, [2], ["checkpoint-1 was not evaluated: exit code 1: the engine ended: out of mem"]),
        (vanish, [2], ["checkpoint-1 was not evaluated", "the folder has no weights"]),
        (without_folder, [2], ["checkpoint-1 was not evaluated", "the folder does not exist"]),
        (without_program, [], ["No such file or directory: '/nowhere/regrade'"]),
        (without_benchmark, [], ["checkpoint-1 was not evaluated: exit code 1: no sumz"]),
        (with_a_bug, [2], ["KeyError"]),
        (with_files_in_place_of_folders, [], ["checkpoint-1 was not evaluated", "regrade-kept"]),
    ],
)
def test_what_goes_wrong_is_a_warning_and_the_next_checkpoint_is_evaluated_if_it_can_be(
    hook: "training.EvaluateCheckpoints",
    output: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    break_it: Callable[[Path, pytest.MonkeyPatch], None],
    evaluated: list[int],
    told: list[str],
) -> None:
    break_it(output, monkeypatch)

    assert steps(save(hook, output, 1, 2, save_total_limit=1)) == evaluated
    assert [text for text in told if text not in caplog.text] == []
    assert caplog.text.count("checkpoint-2 was not evaluated") == (evaluated == [])
    assert ("Traceback" in caplog.text) == (break_it is with_a_bug)


@pytest.mark.parametrize(
    ("arguments", "between"),
    [({}, "stay"), ({"wait": True}, "end"), ({"wait": True, "between": "sleep"}, "sleep")],
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


def test_a_reporter_that_fails_does_not_end_the_training(
    hook: "training.EvaluateCheckpoints", output: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = Mock()
    trainer.callback_handler.callbacks = []
    trainer.callback_handler.on_log.side_effect = ConnectionError("MLflow is gone")
    hook.attach(trainer)

    assert steps(save(hook, output, 1, 2)) == [1, 2]
    assert "MLflow is gone" in caplog.text
    told = trainer.callback_handler.on_log.call_args_list
    assert [call.args[1].global_step for call in told] == [1, 2], "each at its step"


def test_a_disk_on_which_nothing_can_be_written_does_not_end_the_training(
    hook: "training.EvaluateCheckpoints", output: Path
) -> None:
    # One of the libraries that it imports warns if it can write no file.
    import_module("transformers.trainer")

    def train() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # EFBIG instead of ENOSPC
        # A usual exit would fail where it writes what earlier tests have printed.
        os._exit(len(steps(save(hook, output, 1, 2, save_total_limit=1))))

    forked = multiprocessing.get_context("fork").Process(target=train)
    forked.start()
    forked.join()
    assert forked.exitcode == 0, "no checkpoint was evaluated, and nothing raised"
    assert not (output / "regrade-kept").exists()


def test_only_stop_on_failure_ends_the_training(quick: None, output: Path) -> None:
    hook = training.EvaluateCheckpoints(["gsm8k"], environment={"FAILS": "1"}, stop_on_failure=True)
    with pytest.raises(EvaluationFailedError, match="Evaluation of checkpoint-1: out of memory"):
        save(hook, output, 1)


@pytest.mark.parametrize(("max_waiting", "evaluated"), [(1, [1, 4]), (0, [1])])
def test_a_skipped_checkpoint_is_named_with_the_command_that_evaluates_it(
    quick: None,
    output: Path,
    caplog: pytest.LogCaptureFixture,
    max_waiting: int,
    evaluated: list[int],
) -> None:
    given: dict[str, Any] = {"limit": 8, "max_waiting": max_waiting, "answers": "my answers"}
    slow = training.EvaluateCheckpoints(["gsm8k"], environment={"SECONDS": "1"}, **given)

    assert steps(save(slow, output, 1, 2, 3, 4)) == evaluated
    assert "checkpoint-2 is not evaluated, because newer checkpoints wait" in caplog.text
    command = "regrade evaluate --model {} --benchmark gsm8k --answers 'my answers' --limit 8"
    assert command.format(output / "checkpoint-3") in caplog.text
    assert not (output / "regrade-kept").exists()


def test_a_verdict_is_logged_as_a_number() -> None:
    for number, verdict in enumerate(("pass", "regression", "cannot tell")):
        document = {"answer_sets": [], "gate": {"verdict": verdict, "summary": "s"}}
        assert metrics_of(document) == {"regrade/gate": number}
