"""Models that come while others are evaluated (`regrade evaluate --follow`)."""

import os
import shutil
from collections.abc import Iterable
from itertools import chain, repeat
from pathlib import Path
from unittest.mock import Mock

import pytest

from regrade.checkpoints import ENDED, following, found
from regrade.checkpoints.following import ATTEMPTS, Following, Notes
from regrade.checkpoints.found import Found
from regrade.models.hub import HubHead
from regrade.settings.errors import HubError, ModelError
from tests.checkpoints.writing import write


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SETTLE", "POLL", "HUB_POLL"):
        monkeypatch.setattr(following, name, 0.05)


def save(run: Path, step: int, age: float = 60.0) -> Path:
    return write(run, f"checkpoint-{step}", age=age)


def following_of(run: Path, quiet: float = 0.0, notes: Notes | None = None) -> Following:
    return Following([f"{run}/checkpoint-*"], quiet, notes)


def names(coming: Iterable[Found]) -> list[str]:
    return [Path(model.model).name for model in coming]


def test_checkpoints_come_in_the_order_of_their_steps_also_those_written_meanwhile(tmp_path: Path):
    save(tmp_path, 1000)
    models = following_of(tmp_path, 0.5)
    coming = iter(models)
    assert names([next(coming)]) == ["checkpoint-1000"]
    assert models.peek() is None
    save(tmp_path, 3000)
    peeked = models.peek()
    assert models.peek() == next(coming) == peeked, "it can be seen before it is taken"
    save(tmp_path, 5000)
    save(tmp_path, 4000)
    (tmp_path / "checkpoint-last").symlink_to(tmp_path / "checkpoint-5000")
    assert names(coming) == ["checkpoint-4000", "checkpoint-5000"]


def test_a_checkpoint_that_is_being_written_is_waited_for_and_an_incomplete_one_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(following, "SETTLE", 0.4)
    save(tmp_path, 1, age=0.0)
    (save(tmp_path, 2) / "config.json").unlink()
    assert names(following_of(tmp_path)) == ["checkpoint-1"]
    assert "checkpoint-2 is not evaluated: the folder has no 'config.json'" in caplog.text


@pytest.mark.parametrize(
    ("runs", "pattern"), [(("run[1]",), "run[[]1]/checkpoint-*"), (("a", "b"), "*/checkpoint-*")]
)
def test_the_file_that_ends_a_training_beside_all_folders_of_a_pattern_ends_the_wait_once_all_are_done(
    tmp_path: Path, runs: tuple[str, ...], pattern: str
):
    for number, run in enumerate(runs):
        save(tmp_path / run, number)
        (tmp_path / run / ENDED).touch()

    followed = [f"{tmp_path}/{pattern}"]
    assert len(list(Following(followed, 1e6))) == len(runs)
    assert not Following([*followed, "org/name@main"], 1e6)._has_ended(), "it may have new commits"


@pytest.mark.parametrize("named", [("checkpoint-*",), ("checkpoint-1", "checkpoint-2")])
def test_a_checkpoint_that_was_removed_is_no_model_of_the_hub_and_may_come_again(
    tmp_path: Path, named: tuple[str, ...]
):
    """A training deletes old checkpoints (`save_total_limit`), and writes them again if it goes back."""
    first, _ = save(tmp_path, 1), save(tmp_path, 2)
    coming = iter(Following([f"{tmp_path}/{name}" for name in named], 0.3))
    assert names([next(coming)]) == ["checkpoint-1"]
    shutil.rmtree(first)
    assert names([next(coming)]) == ["checkpoint-2"]
    save(tmp_path, 1)
    assert names(coming) == ["checkpoint-1"]


def test_each_new_commit_of_a_branch_is_a_model_and_a_hub_that_fails_or_lacks_it_is_asked_again_and_stops_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    silent = HubError("org/name", "asking", "The Hub does not answer.", retryable=True)
    gone = ModelError("org/name", "not a model on the Hub")
    heads = [HubHead("org/name", commit, ("config.json", "model.safetensors")) for commit in "ab"]
    answers = chain([heads[0]] * 2, [silent] * 2, [gone] * 2, repeat(heads[1]))
    monkeypatch.setattr(found, "hub_head", Mock(side_effect=answers))
    save(tmp_path, 1)
    coming = Following(["org/name", f"{tmp_path}/checkpoint-*"], 0.4)
    assert names(coming) == ["name@a", "checkpoint-1", "name@b"]
    assert "The Hub does not answer. Looking again" in caplog.text


def test_a_name_that_the_hub_does_not_know_is_refused_before_the_first_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(found, "hub_head", Mock(side_effect=ModelError("org/wrong", "no model")))
    with pytest.raises(ModelError, match="org/wrong"):
        next(iter(Following([str(save(tmp_path, 1)), "org/wrong"], 0.4)))


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Notes:
    monkeypatch.setenv("REGRADE_CACHE", str(tmp_path / "cache"))
    return Notes({"limit": 5})


def noted(run: Path, notes: Notes, *, elsewhere: bool = False) -> list[str]:
    """Return the names of the checkpoints that come, each after it was noted what became of it."""
    models = []
    for model in following_of(run, notes=notes):
        notes.end(model, elsewhere=elsewhere)
        models.append(model)
    return names(models)


def test_a_later_run_leaves_out_what_was_evaluated_and_takes_other_revisions_and_parameters_and_damaged_notes(
    tmp_path: Path, notes: Notes
):
    first = save(tmp_path, 1)
    assert noted(tmp_path, notes) == ["checkpoint-1"]
    save(tmp_path, 2)
    assert noted(tmp_path, Notes({"limit": 5})) == ["checkpoint-2"]
    assert noted(tmp_path, notes) == []
    assert noted(tmp_path, Notes({"limit": 6})) == ["checkpoint-1", "checkpoint-2"]
    os.utime(first / "model.safetensors", (1e9, 1e9))
    assert noted(tmp_path, notes) == ["checkpoint-1"]
    for note in (tmp_path / "cache" / "followed").iterdir():
        note.write_text("{")
    assert noted(tmp_path, notes) == ["checkpoint-1", "checkpoint-2"]


def test_a_revision_whose_runs_are_killed_is_begun_again_but_not_forever_as_one_that_another_run_generates(
    tmp_path: Path, notes: Notes
):
    save(tmp_path, 1)
    for _ in range(ATTEMPTS + 1):
        assert noted(tmp_path, notes, elsewhere=True) == ["checkpoint-1"]
    for _ in range(ATTEMPTS):
        next(iter(following_of(tmp_path, notes=notes)))  # killed here
    assert noted(tmp_path, notes) == []
