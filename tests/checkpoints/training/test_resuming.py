"""A training that resumes, and what an earlier process left in its folder."""

from pathlib import Path
from typing import Any

import pytest

from regrade.checkpoints import training
from tests.checkpoints.training.trainings import arguments_in, history, keep, save, train

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(280)]


@pytest.mark.slow
def test_a_resumed_training_evaluates_what_was_left_and_goes_on_counting(
    tmp_path: Path, quick: None
) -> None:
    hook = training.EvaluateCheckpoints(["gsm8k"], every=2)
    first = train(tmp_path, hook, max_steps=3)
    assert history(first) == {2: 0.02}
    # As if the first process had been killed before it evaluated this checkpoint.
    keep(tmp_path / "tiny-run/checkpoint-3")

    again = training.EvaluateCheckpoints(["gsm8k"], every=2)
    second = train(tmp_path, again, resume=True)

    evaluated = history(second).keys() - history(first)
    assert evaluated == {3, 4}, "3 was left, and 4 is the fourth save of the training"
    assert not (tmp_path / "tiny-run/regrade-kept").exists()


@pytest.mark.parametrize(
    ("strategy", "state", "number"),
    [
        ("steps", {"save_steps": 2}, 2),  # that of the end
        ("steps", {"save_steps": 1}, 3),
        ("epoch", {"epoch": 2.0}, 2),
        ("epoch", {"epoch": 3.0}, 3),
    ],
)
def test_the_process_that_resumes_knows_which_save_it_is(
    tmp_path: Path, strategy: str, state: dict[str, Any], number: int
) -> None:
    from transformers import TrainerControl, TrainerState

    hook = training.EvaluateCheckpoints(["gsm8k"])
    arguments = arguments_in(tmp_path, save_strategy=strategy)
    hook._now = (arguments, TrainerState(global_step=3, **state), TrainerControl())
    assert hook._number_of_save() == number


def test_a_new_training_removes_what_an_older_one_left_and_says_so(
    output: Path, quick: None, caplog: pytest.LogCaptureFixture
) -> None:
    keep(output / "checkpoint-2")

    assert save(training.EvaluateCheckpoints(["gsm8k"]), output).log_history == []
    assert not (output / "regrade-kept").exists()
    assert "removed" in caplog.text
    assert "tiny-run/checkpoint-2" in caplog.text


LOGGED = '{"global_step": 2, "epoch": 0.5, "log_history": [{"loss": 2.5}]}'


def test_a_resumed_training_logs_what_was_left_at_its_step_and_epoch(
    output: Path, quick: None
) -> None:
    from transformers import TrainerState

    (output / "checkpoint-2" / "trainer_state.json").write_text(LOGGED)
    keep(output / "checkpoint-2")
    begun = TrainerState(global_step=5, log_history=[{"loss": 2.5}])

    (_, log) = save(training.EvaluateCheckpoints(["gsm8k"]), output, begun=begun).log_history

    assert (log["step"], log["epoch"], log["regrade/sums/accuracy"]) == (2, 0.5, 0.02)


@pytest.mark.parametrize(
    ("saved", "step", "logged", "belongs"),
    [
        (LOGGED, 6, [{"loss": 2.5}, {"loss": 2.0}], True),
        (LOGGED, 2, [{"loss": 2.5}], True),
        (LOGGED, 1, [{"loss": 2.5}], False),  # of another branch
        (LOGGED, 6, [{"loss": 2.4}, {"loss": 2.0}], False),  # of another training
        (LOGGED, 6, [{"loss": 2.0}], False),
        *((odd, 6, [], False) for odd in (None, "", "[]", "{", '{"global_step": 3}')),
    ],
)
def test_a_checkpoint_belongs_to_the_training_whose_log_begins_with_its_own(
    output: Path, saved: str | None, step: int, logged: list[dict[str, float]], belongs: bool
) -> None:
    from transformers import TrainerState

    from regrade.checkpoints.training.callback import is_of

    kept = keep(output / "checkpoint-2")
    (kept / "trainer_state.json").unlink()
    if saved is not None:
        (kept / "trainer_state.json").write_text(saved)

    assert is_of(kept, TrainerState(global_step=step, log_history=logged)) is belongs
