"""A training that resumes, and what an earlier process left in its folder."""

from pathlib import Path

import pytest

from regrade.checkpoints import training
from tests.checkpoints.training.trainings import ACCURACY, arguments_in, history, keep, save, train

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(280)]


@pytest.mark.slow
def test_a_resumed_training_evaluates_what_was_left_and_goes_on_counting_and_mlflow_gets_each_at_its_step(
    tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'training.db'}")
    hook, again = (training.EvaluateCheckpoints(["gsm8k"], every=2) for _ in range(2))
    try:
        first = train(tmp_path, hook, max_steps=3, report_to="mlflow")
        # As if the first process had been killed before it evaluated this checkpoint.
        keep(tmp_path / "tiny-run/checkpoint-3")
        second = train(tmp_path, again, resume=True, report_to="mlflow")
        runs = mlflow.search_runs(search_all_experiments=True, output_format="list")
        ids, client = [run.info.run_id for run in runs], mlflow.MlflowClient()
        logged = [m for run in ids for m in client.get_metric_history(run, ACCURACY)]
    finally:
        mlflow.set_tracking_uri(None)

    assert history(first) == {2: 0.02}
    evaluated = history(second).keys() - history(first)
    assert evaluated == {3, 4}, "3 was left, and 4 is the fourth save of the training"
    assert {metric.step: metric.value for metric in logged} == {2: 0.02, 3: 0.03, 4: 0.04}
    assert not (tmp_path / "tiny-run/regrade-kept").exists()


def test_the_process_that_resumes_knows_which_save_it_is(tmp_path: Path) -> None:
    from transformers import TrainerControl, TrainerState

    hook = training.EvaluateCheckpoints(["gsm8k"])
    for strategy, state, number in (
        ("steps", TrainerState(global_step=3, save_steps=2), 2),  # that of the end
        ("steps", TrainerState(global_step=3, save_steps=1), 3),
        ("epoch", TrainerState(epoch=2.0), 2),
        ("epoch", TrainerState(epoch=3.0), 3),
    ):
        hook._now = (arguments_in(tmp_path, save_strategy=strategy), state, TrainerControl())
        assert hook._number_of_save() == number


LOGGED = '{"global_step": 2, "epoch": 0.5, "log_history": [{"loss": 2.5}]}'


def test_a_resumed_training_logs_what_was_left_at_its_step_and_epoch_and_removes_what_others_left_and_says_so(
    output: Path, quick: None, caplog: pytest.LogCaptureFixture
) -> None:
    from transformers import TrainerState

    (output / "checkpoint-2" / "trainer_state.json").write_text(LOGGED)
    for step in (2, 6):  # 6 lies behind where this training begins
        keep(output / f"checkpoint-{step}")
    begun = TrainerState(global_step=5, log_history=[{"loss": 2.5}])

    (_, log) = save(training.EvaluateCheckpoints(["gsm8k"]), output, begun=begun).log_history

    assert (log["step"], log["epoch"], log["regrade/sums/accuracy"]) == (2, 0.5, 0.02)
    assert f"removed '{output}/regrade-kept/tiny-run/checkpoint-6'" in caplog.text
    assert not (output / "regrade-kept").exists()


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

    file = output / "checkpoint-2" / "trainer_state.json"
    file.unlink() if saved is None else file.write_text(saved)

    assert is_of(file.parent, TrainerState(global_step=step, log_history=logged)) is belongs
