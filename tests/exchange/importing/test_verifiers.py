"""Rollouts of verifiers: files as versions 0.1.14 (`results.jsonl`) and 0.4.0 (`traces.jsonl`) write them."""

import json
from pathlib import Path
from typing import Any

import pytest

from regrade.exchange.importing.base import Reported, TableOptions
from regrade.exchange.importing.files import ImportFileError
from tests.exchange.importing.writing import document, jsonl, read, read_sets

CALL = {"id": "c", "name": "add", "arguments": '{"x": 1}'}


def rollout(example: int = 0, reward: float = 1.0, **changes: Any) -> dict[str, Any]:
    return {
        "example_id": example,
        "prompt": [
            {"role": "system", "content": "Add."},
            {"role": "user", "content": f"{example} + 1?"},
        ],
        "completion": [
            {"role": "assistant", "content": "", "tool_calls": [json.dumps(CALL)]},
            {"role": "tool", "tool_call_id": "c", "content": "2"},
            {"role": "assistant", "content": "It is 2."},
        ],
        "answer": "2",
        "reward": reward,
        "error": None,
        "is_truncated": False,
        "metrics": {"correct": reward, "num_turns": 2.0},
        "correct": reward,
        "num_turns": 2.0,
        "token_usage": {"input_tokens": 40.0, "output_tokens": 9.0},
    } | changes


METADATA = {
    "env_id": "adding",
    "model": "Qwen/Q",
    "num_examples": 2,
    "rollouts_per_example": 2,
    "avg_reward": 0.5,
    "version_info": {"vf_version": "0.1.14"},
}


def evaluation(folder: Path, *rows: dict[str, Any], **changes: Any) -> Path:
    document(folder / "metadata.json", METADATA | changes)
    return jsonl(folder / "results.jsonl", *rows)


def test_a_rollout_is_an_answer_with_its_trajectory_and_reward(tmp_path: Path):
    rows = [rollout(0), rollout(0, 0.0), rollout(1), rollout(1, 0.0)]
    found = read(evaluation(tmp_path, *rows))
    assert (found.model, found.benchmark, found.n_samples, found.repeats) == (
        *("Qwen/Q", "adding"),
        *(2, 2),
    )
    assert [(row.index, row.repeat) for row in found.rows] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [original.name for original in found.originals] == ["reward", "correct"]
    assert found.originals[0].reported == Reported(0.5)
    row = found.rows[0]
    assert (row.text, row.target, row.question) == ("It is 2.", "2", "0 + 1?")
    assert [m.role for m in row.trajectory or ()] == ["assistant", "tool", "assistant"]
    assert row.scores["reward"].value == 1.0
    assert row.completion_tokens == 9


def test_one_answer_is_no_trajectory(tmp_path: Path):
    answer = {"role": "assistant", "content": "2", "reasoning_content": "hm"}
    [row, text] = read(
        evaluation(
            tmp_path, rollout(completion=[answer]), rollout(prompt="1 + 1 =", completion=" 2")
        )
    ).rows
    assert (row.text, row.reasoning, row.trajectory) == ("2", "hm", None)
    assert (text.prompt, text.prompt_kind, text.text) == ("1 + 1 =", "text", " 2")


def test_a_reward_outside_of_its_scale_is_refused_until_the_scale_is_stated(tmp_path: Path):
    path = evaluation(tmp_path, rollout(0), rollout(1, 1.2))
    with pytest.raises(
        ImportFileError, match=r"'reward' is 1\.2, outside of 0 to 1.*--score-range"
    ):
        read(path)
    found = read(path, TableOptions(score_range=(0.0, 1.2)))
    assert (found.originals[0].low, found.originals[0].high) == (0.0, 1.2)
    assert found.originals[0].reported is None  # it is a mean on another scale than shares


def test_a_rollout_that_failed_says_why(tmp_path: Path):
    error = {"error": "ModelError", "error_chain_repr": "x", "error_chain_str": "y"}
    [row] = read(evaluation(tmp_path, rollout(completion=None, error=error, reward=0.0))).rows
    assert (row.text, row.error) == (None, "ModelError")


def node(role: str, content: str, parent: int | None, **more: Any) -> dict[str, Any]:
    sampled = role == "assistant"
    return {
        "parent": parent,
        "sampled": sampled,
        "message": {"role": role, "content": content, **more},
    }


def trace(score: float = 1.0, agent: str = "agent", **changes: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "verifiers": {"version": "0.4.0"},
        "task": {"type": "Add", "data": {"prompt": "1 + 1?", "answer": "2"}, "key": "k1"},
        "agent": {"config": {"model": "Qwen/Q", "harness": {"id": "bash"}}, "name": agent},
        "nodes": [
            node("user", "1 + 1?", None),
            node("assistant", "Let me", 0, tool_calls=[CALL]),
            node("tool", "2", 1, tool_call_id="c"),
            node("assistant", "another branch", 2),
            node("assistant", "2", 2),
        ],
        "calls": [],
        "rewards": {
            "right": {"score": score, "weight": 0.5},
            "form": {"score": 1.0, "weight": 0.5},
        },
        "metrics": {"num_turns": 2.0},
        "errors": [],
        "stop_condition": "agent_completed",
    } | changes


def episode(*traces: dict[str, Any]) -> dict[str, Any]:
    return {"env": {"id": "adding"}, "task": traces[0]["task"], "ok": True, "traces": list(traces)}


def test_the_last_branch_of_a_trace_is_imported_with_its_weighted_reward(tmp_path: Path):
    found = read(jsonl(tmp_path / "traces.jsonl", episode(trace()), episode(trace(0.0))))
    assert (found.model, found.benchmark) == ("Qwen/Q", "adding")
    assert [(row.index, row.repeat) for row in found.rows] == [(0, 0), (0, 1)]
    assert [row.scores["reward"].value for row in found.rows] == [1.0, 0.5]
    assert [original.name for original in found.originals] == ["reward"]
    row = found.rows[0]
    assert (row.text, row.question, row.target) == ("2", "1 + 1?", "2")
    assert [m.role for m in row.trajectory or ()] == ["assistant", "tool", "assistant"]
    assert "another branch" not in str(row.trajectory)


def test_a_reward_of_which_a_part_is_missing_is_missing(tmp_path: Path):
    rewards = {"right": {"score": None, "weight": 0.5}, "form": {"score": 1.0, "weight": 0.5}}
    lines = [episode(trace()), episode(trace(rewards=rewards))]
    whole, part = read(jsonl(tmp_path / "traces.jsonl", *lines)).rows
    assert ("reward" in whole.scores, "reward" in part.scores) == (True, False)


def test_agents_of_an_episode_are_answer_sets_of_their_own(tmp_path: Path):
    lines = episode(trace(agent="solver"), trace(agent="critic", root_reply="Good."))
    solver, critic = read_sets(jsonl(tmp_path / "traces.jsonl", lines))
    assert [found.recorded["agent"] for found in (solver, critic)] == ["solver", "critic"]
    assert critic.rows[0].text == "Good."


def test_a_graph_that_goes_in_circles_is_refused(tmp_path: Path):
    nodes = [node("user", "q", 1), node("assistant", "a", 0)]
    with pytest.raises(
        ImportFileError, match="row 0: in 'traces', a message's parent should stand before it"
    ):
        read(jsonl(tmp_path / "traces.jsonl", episode(trace(nodes=nodes))))
