"""A training that resumes, and what an earlier process left in its folder."""

from pathlib import Path

import pytest

from regrade.checkpoints import training
from regrade.checkpoints.training.checkpoints import Queue
from tests.checkpoints.training.trainings import arguments_in, history, keep, save, train

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(280)]


@pytest.mark.slow
def test_a_resumed_training_evaluates_what_was_left_and_goes_on_counting(
    tmp_path: Path, quick: None
) -> None:
    hook = training.EvaluateCheckpoints(["gsm8k"], every=2)
    first, _ = train(tmp_path, hook, max_steps=3)
    assert history(first) == {2: 0.02}
    # As if the first process had been killed before it evaluated this checkpoint.
    keep(tmp_path / "tiny-run/checkpoint-3")

    second, reporter = train(
        tmp_path, training.EvaluateCheckpoints(["gsm8k"], every=2), resume=True
    )

    assert sorted(reporter.logged) == [3, 4], "3 was left, and 4 is the fourth save of the training"
    assert history(second).keys() >= {3, 4}
    assert not (tmp_path / "tiny-run/regrade-kept").exists()


@pytest.mark.parametrize(
    ("strategy", "state", "evaluated"),
    [
        ("steps", {"save_steps": 2}, True),  # the second save: that of the end
        ("steps", {"save_steps": 1}, False),
        ("epoch", {"epoch": 2.0}, True),
        ("epoch", {"epoch": 3.0}, False),
    ],
)
def test_the_process_that_resumes_knows_which_save_it_is(
    output: Path,
    monkeypatch: pytest.MonkeyPatch,
    strategy: str,
    state: dict[str, float],
    evaluated: bool,
) -> None:
    from transformers import TrainerState

    monkeypatch.setattr(training.EvaluateCheckpoints, "_start", lambda *_: None)
    hook = training.EvaluateCheckpoints(["gsm8k"], every=2)
    arguments = arguments_in(output, save_strategy=strategy)
    resumed = TrainerState(global_step=3, **state)  # type: ignore[arg-type]
    hook.on_train_begin(arguments, resumed, None)  # type: ignore[arg-type]
    hook.on_save(arguments, resumed, None)  # type: ignore[arg-type]
    waiting = [place.name for place in Queue(output).places()]
    assert waiting == ["checkpoint-3"] * evaluated


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


def test_the_folder_of_kept_checkpoints_has_the_trainings_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").mkdir()
    monkeypatch.chdir(tmp_path / "run")
    assert Queue(Path()).folder == Path("regrade-kept/run")
