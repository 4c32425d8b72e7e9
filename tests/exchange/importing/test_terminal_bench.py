"""Runs of Terminal-Bench before Harbor: files as its models write them (0.2.18)."""

from pathlib import Path
from typing import Any

import pytest

from regrade.exchange.importing import files
from regrade.exchange.importing.base import Reported
from regrade.exchange.importing.files import ImportFileError
from tests.exchange.importing.writing import document, read


def trial(task: str, is_resolved: bool | None, **changes: Any) -> dict[str, Any]:
    return {
        "trial_name": f"{task}.1-of-1.r1",
        "task_id": task,
        "instruction": f"Do {task}.",
        "is_resolved": is_resolved,
        "failure_mode": "unset",
        "total_output_tokens": 5,
    } | changes


def run(folder: Path, *trials: dict[str, Any]) -> Path:
    about = {
        "run_id": "r1",
        "agent_name": "terminus",
        "model_name": "openai/q",
        "dataset_name": "terminal-bench-core",
        "dataset_size": 2,
        "n_attempts": 1,
    }
    document(folder / "run_metadata.json", about)
    found = {"results": list(trials), "n_resolved": 1, "accuracy": 0.5}
    return document(folder / "results.json", found)


def test_a_trial_is_an_answer_with_its_episodes(tmp_path: Path):
    path = run(tmp_path, trial("hello", True), trial("fix", False, failure_mode="agent_timeout"))
    for number in range(11):
        episode = tmp_path / "hello" / "hello.1-of-1.r1" / "agent-logs" / f"episode-{number}"
        episode.mkdir(parents=True)
        (episode / "prompt.txt").write_text(f"prompt {number}")
        (episode / "response.txt").write_text(f"response {number}")
    found = read(path)
    assert (found.model, found.benchmark, found.n_samples) == ("openai/q", "terminal-bench-core", 2)
    assert found.originals[0].reported == Reported(0.5, n=2)
    hello, fix = found.rows
    assert (hello.question, hello.text) == ("Do hello.", "response 10")  # 10 follows 9, not 1
    assert len(hello.trajectory or ()) == 21
    assert hello.scores["is_resolved"].value == 1.0
    assert (fix.text, fix.error, fix.trajectory) == (None, "agent_timeout", None)
    assert fix.scores["is_resolved"].value == 0.0


def test_trials_cannot_share_logs_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(files, "MAX_AGAIN", 10_000)
    episode = tmp_path / "hello" / "hello.1-of-1.r1" / "agent-logs" / "episode-0"
    episode.mkdir(parents=True)
    (episode / "prompt.txt").write_text("x" * 1000)
    path = run(tmp_path, *[trial("hello", True)] * 100)
    with pytest.raises(ImportFileError, match="it names files beside it again and again"):
        read(path)


@pytest.mark.parametrize("name", ["../../secret", "..", ""])
def test_names_of_tasks_lead_out_of_no_folder(tmp_path: Path, name: str):
    secret = tmp_path / "secret" / "t" / "agent-logs" / "episode-0"
    secret.mkdir(parents=True)
    (secret / "response.txt").write_text("secret")
    path = run(tmp_path / "runs" / "r", trial("x", True, task_id=name, trial_name="t"))
    [row] = read(path).rows
    assert row.trajectory is None


def test_a_run_without_trials_is_refused(tmp_path: Path):
    with pytest.raises(ImportFileError, match="'results' should be a list of trials"):
        read(run(tmp_path))
