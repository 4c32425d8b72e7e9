"""Trials of Harbor: files as its models write them (0.26.0; trajectories in ATIF 1.8)."""

from pathlib import Path
from typing import Any

import pytest

from regrade.exchange.importing import files
from regrade.exchange.importing.base import Reported
from regrade.exchange.importing.files import ImportFileError, SourceFile
from regrade.exchange.importing.harbor import is_part
from tests.exchange.importing.writing import document, read, read_sets, sets
from tests.pictures import SVG, file_of, image

STEPS: list[dict[str, Any]] = [
    {"step_id": 1, "source": "user", "message": "Fix it."},
    {
        "step_id": 2,
        "source": "agent",
        "message": "Looking.",
        "reasoning_content": "hm",
        "tool_calls": [{"tool_call_id": "c1", "function_name": "bash", "arguments": {"cmd": "ls"}}],
        "observation": {"results": [{"source_call_id": "c1", "content": "a.txt"}]},
    },
    {"step_id": 3, "source": "agent", "message": "Done."},
]


def result(task: str = "fix-git", reward: float | None = 1.0, **changes: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "task_name": task,
        "trial_name": f"{task}__abc",
        "task_id": {"path": f"/tasks/{task}"},
        "source": "terminal-bench",
        "task_checksum": "c" * 8,
        "config": {},
        "agent_info": {
            "name": "terminus-2",
            "version": "2.0",
            "model_info": {"name": "Qwen/Q", "provider": "hosted_vllm"},
        },
        "agent_result": {"n_input_tokens": 100, "n_output_tokens": 20},
        "verifier_result": None if reward is None else {"rewards": {"reward": reward}},
        "exception_info": None,
        "started_at": "2026-01-01T00:00:00Z",
        "agent_execution": {
            "started_at": "2026-01-01T00:00:00Z",
            "finished_at": "2026-01-01T00:01:00Z",
        },
    } | changes


def trial(job: Path, name: str, found: dict[str, Any], steps: list[Any] | None = None) -> Path:
    folder = job / name
    if steps is not None:
        written = {"schema_version": "ATIF-v1.8", "agent": {"name": "t"}, "steps": steps}
        document(folder / "agent" / "trajectory.json", written)
    document(folder / "agent" / "settings.json", {"not": "imported"})
    return document(folder / "result.json", found)


def job(folder: Path) -> Path:
    trial(folder, "a", result(started_at="2026-01-01T00:00:01Z"), STEPS)
    trial(folder, "b", result("chess", 0.0), STEPS)
    trial(folder, "c", result(reward=0.0, started_at="2026-01-01T00:00:02Z"), STEPS)
    evals = {"terminus-2__Qwen/Q__terminal-bench": {"metrics": [{"mean": 0.25}]}}
    stats = {"n_completed_trials": 3, "evals": evals}
    return document(folder / "result.json", {"id": "1", "n_total_trials": 3, "stats": stats})


def test_a_trial_is_an_answer_with_its_trajectory_and_reward(tmp_path: Path):
    found = read(job(tmp_path / "jobs" / "first"))
    assert (found.model, found.benchmark) == ("hosted_vllm/Qwen/Q", "terminal-bench")
    assert found.recorded["agent"]["name"] == "terminus-2"
    assert [(row.content, row.index, row.repeat) for row in found.rows] == [
        ("chess", 0, 0),
        ("fix-git", 1, 0),
        ("fix-git", 1, 1),
    ]
    assert [row.scores["reward"].value for row in found.rows] == [0.0, 1.0, 0.0]
    assert found.originals[0].reported == Reported(0.25)
    row = found.rows[1]
    assert (row.question, row.text) == ("Fix it.", "Done.")
    assert [message.role for message in row.trajectory or ()] == ["assistant", "tool", "assistant"]
    assert [part.kind for part in (row.trajectory or ())[0].parts] == [
        "reasoning",
        "text",
        "tool_call",
    ]
    assert (row.trajectory or ())[1].parts[0].name == "bash"
    assert (row.completion_tokens, row.latency) == (20, 60.0)


def test_a_trial_without_a_trajectory_keeps_its_reward_or_its_error(tmp_path: Path):
    failed = {"exception_type": "AgentTimeoutError", "exception_message": "too long"}
    trial(tmp_path / "j", "a", result(reward=1.0))
    trial(tmp_path / "j", "b", result("chess", None, exception_info=failed))
    second, first = read(tmp_path / "j" / "a" / "result.json").rows  # by their names
    assert (first.text, first.error, first.question) == (None, None, "fix-git")
    assert first.scores["reward"].value == 1.0
    assert (second.error, dict(second.scores)) == ("AgentTimeoutError: too long", {})


def test_trials_without_a_jobs_file_are_imported_with_the_first_of_them(tmp_path: Path):
    first = trial(tmp_path / "j", "a", result(), STEPS)
    second = trial(tmp_path / "j", "b", result("chess"), STEPS)
    assert [is_part(SourceFile(path)) for path in (first, second)] == [False, True]
    assert len(read(first).rows) == 2
    [row] = read(second).rows  # named by itself
    assert row.content == "chess"
    document(tmp_path / "j" / "result.json", {"n_total_trials": 2, "stats": {}})
    assert is_part(SourceFile(first))


def test_agents_of_a_job_are_answer_sets_of_their_own(tmp_path: Path):
    path = job(tmp_path / "j")
    other = {"name": "oracle", "version": "1", "model_info": None}
    trial(tmp_path / "j", "d", result(agent_info=other))
    found = read_sets(path)
    assert sorted((s.model, len(s.rows)) for s in found) == [
        ("hosted_vllm/Qwen/Q", 3),
        ("oracle", 1),
    ]


def test_steps_of_a_trial_and_files_that_continue_one_are_one_trajectory(tmp_path: Path):
    folder = tmp_path / "j" / "a"
    steps = [{"step_name": "one"}, {"step_name": "two"}, {"step_name": "../../two"}]
    first = {"steps": STEPS[:2], "continued_trajectory_ref": "trajectory.cont-1.json"}
    copied = {"step_id": 1, "source": "user", "message": "Fix it.", "is_copied_context": True}
    document(folder / "steps" / "one" / "agent" / "trajectory.json", first)
    document(
        folder / "steps" / "one" / "agent" / "trajectory.cont-1.json", {"steps": [copied, STEPS[2]]}
    )
    document(folder / "steps" / "two" / "agent" / "trajectory.json", {"steps": STEPS})
    path = trial(tmp_path / "j", "a", result(step_results=steps))
    [row] = read(path).rows
    assert [message.role for message in row.trajectory or ()] == [
        *("assistant", "tool", "assistant"),
        *("user", "assistant", "tool", "assistant"),
    ]


def test_the_hash_of_a_job_is_that_of_all_its_files(tmp_path: Path):
    def digest(folder: str, last: str) -> str:
        path = job(tmp_path / folder)
        trial(tmp_path / folder, "a", result(), [*STEPS[:2], {**STEPS[2], "message": last}])
        file = SourceFile(path)
        sets("harbor", file)
        return file.sha256

    assert digest("a", "Done.") == digest("b", "Done.")
    assert digest("a", "Done.") != digest("c", "Not done.")


def test_a_trajectory_that_continues_itself_is_not_read_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(files, "MAX_AGAIN", 100_000)
    steps = [{"step_name": "one"}] * 1000
    again = {"steps": STEPS, "continued_trajectory_ref": "trajectory.json"}
    path = trial(tmp_path / "j", "a", result(step_results=steps))
    document(path.parent / "steps" / "one" / "agent" / "trajectory.json", again)
    with pytest.raises(ImportFileError, match=r"again and again, such as 'trajectory\.json'"):
        read(path)


def test_images_of_a_prompt_in_files_beside_are_read_and_no_part_of_the_hash(tmp_path: Path):
    (tmp_path / "secret.png").write_bytes(file_of("PNG"))
    red, blue = image(1), image(2, "JPEG")
    shown = ("images/red.png", "images/none.png", "../../../secret.png", "images/link.png", "a.svg")
    parts = [{"type": "image", "source": {"media_type": "image/png", "path": p}} for p in shown]
    seen = {"content": [{"type": "image", "source": {"path": "images/blue.jpeg"}}]}
    asked = {"source": "user", "message": [{"type": "text", "text": "Which?"}, *parts]}
    path = trial(
        tmp_path / "j", "a", result(), [asked, {**STEPS[1], "observation": {"results": [seen]}}]
    )
    before = SourceFile(path)
    sets("harbor", before)
    folder = path.parent / "agent" / "images"
    folder.mkdir()
    (folder / "red.png").write_bytes(red.content)
    (folder / "blue.jpeg").write_bytes(blue.content)
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    (folder.parent / "a.svg").write_bytes(SVG)
    file = SourceFile(path)

    [found] = sets("harbor", file)

    [row] = found.rows
    named = [f"[image: {name}]" for name in shown[1:]]
    assert row.question == "\n".join(["Which?", red.mark, *named])
    assert row.images == (red,)
    observed = [part.text for part in (row.trajectory or ())[1].parts]
    assert observed == ["", "[image: images/blue.jpeg]"]  # those of a trajectory are not copied
    assert file.sha256 == before.sha256
    assert folder / "red.png" in file.consulted


def test_links_out_of_a_job_are_not_followed(tmp_path: Path):
    secret = document(tmp_path / "secret.json", {"steps": STEPS})
    path = trial(tmp_path / "j", "a", result())
    (path.parent / "agent" / "trajectory.json").symlink_to(secret)
    [row] = read(path).rows
    assert row.trajectory is None


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ({"steps": "x"}, "'steps' should be a list of objects"),
        ({"steps": [{"source": "agent", "message": 3}]}, "content of a message should be a text"),
        (
            {"steps": [{"source": "agent", "message": "", "tool_calls": [{}]}]},
            "a call should name its function",
        ),
    ],
)
def test_a_damaged_trajectory_names_its_file(tmp_path: Path, steps: object, says: str):
    path = trial(tmp_path / "j", "a", result())
    document(path.parent / "agent" / "trajectory.json", steps)
    with pytest.raises(ImportFileError, match=says) as error:
        read(path)
    assert error.value.path == str(path.parent / "agent" / "trajectory.json")
    (path.parent / "agent" / "trajectory.json").write_text("{")
    with pytest.raises(ImportFileError, match="trajectory.json.*not JSON"):
        read(path)


def test_a_job_without_trials_says_so(tmp_path: Path):
    path = document(tmp_path / "j" / "result.json", {"n_total_trials": 2, "stats": {}})
    with pytest.raises(ImportFileError, match=r"no folder beside it has the 'result\.json'"):
        read(path)
