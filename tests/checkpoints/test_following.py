"""Models that come while others are evaluated (`regrade evaluate --follow`)."""

import logging
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

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


def names(coming: Iterable[Found]) -> list[str]:
    return [Path(model.model).name for model in coming]


def steps(run: Path, notes: Notes | None = None) -> list[str]:
    """Return the names of the checkpoints that have come, in their order."""
    return names(Following([f"{run}/checkpoint-*"], 0.0, notes))


def test_checkpoints_come_in_the_order_of_their_steps_also_those_written_meanwhile(tmp_path: Path):
    save(tmp_path, 1000)
    coming = iter(Following([f"{tmp_path}/checkpoint-*"], 0.5))
    assert Path(next(coming).model).name == "checkpoint-1000"
    save(tmp_path, 3000)
    save(tmp_path, 2000)
    (tmp_path / "checkpoint-last").symlink_to(tmp_path / "checkpoint-3000")
    assert names(coming) == ["checkpoint-2000", "checkpoint-3000"]


def test_a_checkpoint_that_is_being_written_is_waited_for_and_an_incomplete_one_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(following, "SETTLE", 0.4)
    save(tmp_path, 1, age=0.0)
    (save(tmp_path, 2) / "config.json").unlink()
    with caplog.at_level(logging.WARNING):
        assert steps(tmp_path) == ["checkpoint-1"]
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

    names = [f"{tmp_path}/{pattern}"]
    assert len(list(Following(names, 1e6))) == len(runs)
    assert not Following([*names, "org/name@main"], 1e6)._has_ended(), "it may have new commits"


def test_a_checkpoint_that_is_deleted_while_it_is_looked_at_is_no_model_of_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A training deletes old checkpoints (`save_total_limit`) between the list of them and the look at each."""
    save(tmp_path, 2)
    gone = str(tmp_path / "checkpoint-1")
    matching = following.matching
    monkeypatch.setattr(following, "matching", lambda pattern: [gone, *matching(pattern)])

    assert steps(tmp_path) == ["checkpoint-2"]


def test_a_checkpoint_that_was_removed_may_come_again(tmp_path: Path):
    folder = save(tmp_path, 1)
    coming = iter(Following([f"{tmp_path}/checkpoint-*"], 0.3))
    next(coming)
    shutil.rmtree(folder)
    save(tmp_path, 2)
    assert names([next(coming)]) == ["checkpoint-2"]
    save(tmp_path, 1)
    assert names(coming) == ["checkpoint-1"]


def test_each_new_commit_of_a_branch_is_a_model_and_a_hub_that_fails_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    commits = iter(["a", "a", None, "b", "b"])

    def hub_head(name: str) -> HubHead:
        commit = next(commits, "b")
        if commit is None:
            raise HubError("org/name", "asking", "The Hub does not answer.", retryable=True)
        return HubHead(name, commit, ("config.json", "model.safetensors"))

    monkeypatch.setattr(found, "hub_head", hub_head)
    coming = [model.model for model in Following(["org/name"], 0.4)]
    assert coming == ["org/name@a", "org/name@b"]
    assert "The Hub does not answer. Looking again" in caplog.text


def test_a_name_that_the_hub_does_not_know_is_refused_before_the_first_model(
    monkeypatch: pytest.MonkeyPatch,
):
    def hub_head(name: str) -> HubHead:
        if name == "org/wrong":
            raise ModelError(name, "not a model on the Hub")
        return HubHead(name, "a", ("config.json", "model.safetensors"))

    monkeypatch.setattr(found, "hub_head", hub_head)
    with pytest.raises(ModelError, match="org/wrong"):
        next(iter(Following(["org/name", "org/wrong"], 0.4)))


def test_the_next_model_can_be_seen_before_it_is_taken(tmp_path: Path):
    save(tmp_path, 1)
    models = Following([f"{tmp_path}/checkpoint-*"], 0.0)
    coming = iter(models)
    next(coming)
    assert models.peek() is None
    save(tmp_path, 2)
    peeked = models.peek()
    assert peeked is not None
    assert names([peeked]) == ["checkpoint-2"]
    assert models.peek() == next(coming) == peeked


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Notes:
    monkeypatch.setenv("REGRADE_CACHE", str(tmp_path / "cache"))
    return Notes({"limit": 5})


def test_a_later_run_leaves_out_what_was_evaluated_and_takes_other_revisions_and_parameters(
    tmp_path: Path, notes: Notes
):
    first = save(tmp_path, 1)
    assert steps(tmp_path, notes) == ["checkpoint-1"]
    save(tmp_path, 2)
    assert steps(tmp_path, Notes({"limit": 5})) == ["checkpoint-2"]
    assert steps(tmp_path, notes) == []
    assert steps(tmp_path, Notes({"limit": 6})) == ["checkpoint-1", "checkpoint-2"]
    os.utime(first / "model.safetensors", (1e9, 1e9))
    assert steps(tmp_path, notes) == ["checkpoint-1"]


def test_a_revision_whose_runs_are_killed_is_begun_again_but_not_forever(
    tmp_path: Path, notes: Notes
):
    save(tmp_path, 1)
    for _ in range(ATTEMPTS):
        taken = next(iter(Following([f"{tmp_path}/checkpoint-*"], 0.0, notes)))  # killed here
        assert names([taken]) == ["checkpoint-1"]
    assert steps(tmp_path, notes) == []


def test_a_model_that_another_run_generates_is_not_noted_as_ended(tmp_path: Path, notes: Notes):
    save(tmp_path, 1)
    for _ in range(ATTEMPTS + 1):
        models = Following([f"{tmp_path}/checkpoint-*"], 0.0, Notes({"limit": 5}))
        for model in models:
            models.leave(model)
            assert names([model]) == ["checkpoint-1"]
    assert steps(tmp_path, notes) == ["checkpoint-1"]


def test_a_damaged_note_counts_as_none(tmp_path: Path, notes: Notes):
    save(tmp_path, 1)
    steps(tmp_path, notes)
    (note,) = (tmp_path / "cache" / "followed").iterdir()
    note.write_text("{")
    assert steps(tmp_path, notes) == ["checkpoint-1"]
