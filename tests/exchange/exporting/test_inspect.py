"""`regrade export --format inspect`: read back by our importer, and opened by Inspect's own reader."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from regrade.cli.main import run
from regrade.exchange.importing.base import TableOptions
from regrade.exchange.importing.files import SourceFile
from regrade.exchange.importing.inspect_log import read
from regrade.records.messages import Part, PartedMessage
from regrade.records.tools import calls_text
from regrade.records.trajectory import call_of, trajectory_text
from regrade.settings import SamplingParams
from tests.builders import row
from tests.command_line import ROOT
from tests.exchange.exporting.test_every_eval_ever import mixed, without_images
from tests.judged import graded
from tests.pictures import image, publish_showing, showing
from tests.stored import again, commit_manifest, numbers, publish, score

PEERS = ROOT / ".peers/bin/python"
READER = """
import json, sys
from inspect_ai.log import read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries
path = sys.argv[1]
log = read_eval_log(path)
summaries = read_eval_log_sample_summaries(path)
sample = read_eval_log_sample(path, id=log.samples[4].id, epoch=1)
score = log.results.scores[0]
print(json.dumps({
    "status": log.status,
    "model": log.eval.model,
    "task": log.eval.task,
    "samples": len(log.samples),
    "summaries": len(summaries),
    "total": log.results.total_samples,
    "accuracy": score.metrics["accuracy"].value,
    "stderr": score.metrics["stderr"].value,
    "scored": score.scored_samples,
    "value": sample.scores["number"].value,
    "answer": sample.scores["number"].answer,
    "text": sample.output.completion,
    "input": log.samples[0].input,
    "reasoning": [part.type for part in log.samples[0].output.message.content],
    "error": log.samples[6].error.message,
    "temperature": log.eval.model_generate_config.temperature,
    "tokens": log.stats.model_usage[log.eval.model].output_tokens,
}))
"""


MESSAGES = """
import json, sys
from inspect_ai.log import read_eval_log
log = read_eval_log(sys.argv[1], resolve_attachments=True)
print(json.dumps([
    {
        "input": sample.input if isinstance(sample.input, str) else [
            part.model_dump(include={"type", "text", "image"}) for part in sample.input[0].content
        ],
        "messages": [
            [message.role, message.text, [
                [call.function, call.arguments, call.parse_error]
                for call in getattr(message, "tool_calls", None) or ()
            ]]
            for message in sample.messages
        ],
        "failed": [message.error.message for message in sample.messages if getattr(message, "error", None)],
        "answer": sample.output.completion,
        "scores": {name: score.value for name, score in sample.scores.items()},
    }
    for sample in log.samples
]))
"""


def exported(answers: AnswerSet, folder: Path) -> Path:
    set_id = answers.manifest.answer_set_id
    given = ["--format", "inspect", "--answers", answers.repository.uri]
    assert run(["export", set_id, str(folder), *given]) == 0
    [path] = folder.glob("*.eval")
    return path


def documents(path: Path) -> dict[str, Any]:
    with ZipFile(path) as log:
        return {name: json.loads(log.read(name)) for name in log.namelist()}


Made = Callable[..., Path]


@pytest.fixture
def made(repository: LocalRepository, tmp_path: Path) -> Made:
    """Publishes rows, scores them and exports the answer set into the folder `out`."""

    def make(rows: list[dict[str, Any]], **changes: Any) -> Path:
        answers = publish(repository, rows, **changes)
        score(answers)
        return exported(answers, tmp_path / "out")

    return make


def test_our_importer_reads_what_was_exported(repository: LocalRepository, tmp_path: Path):
    rows = mixed()
    answers = publish(repository, rows, sampling=SamplingParams(temperature=0.6))
    file = score(answers)
    imported = read(SourceFile(exported(answers, tmp_path / "out")), TableOptions())
    assert imported.n_samples == 7
    for before, after in zip(rows, imported.rows, strict=True):
        assert (after.text or None) == before["text"]
        assert after.reasoning == before["reasoning"]
        assert after.target == before["target"]
        assert after.error == before["error"]
    assert [row.scores["number"].value for row in imported.rows[:6]] == [1, 1, 1, 1, 0, 0]
    assert "number" not in imported.rows[6].scores
    [original] = imported.originals
    assert original.reported is not None
    assert original.reported.value == file.summary.overall.accuracy


def test_ids_that_are_no_file_names_are_replaced_and_kept_beside(made: Made):
    found = documents(made([row(n) | {"sample_id": f"../{n}\n"} for n in range(2)]))
    names = [name for name in found if name.startswith("samples/")]
    assert names == ["samples/question-1_epoch_1.json", "samples/question-2_epoch_1.json"]
    assert found[names[0]]["metadata"]["sample_id"] == "../0\n"


def test_chats_are_messages_and_withheld_questions_are_left_out(
    repository: LocalRepository, tmp_path: Path
):
    messages = json.dumps(
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "SECRET?"}]
    )
    rows = [row(n, prompt=messages, prompt_kind="messages", question="SECRET?") for n in range(2)]
    answers = publish(repository, rows)
    score(answers)
    found = documents(exported(answers, tmp_path / "out"))
    sample = found["samples/sample-00000_epoch_1.json"]
    assert [message["role"] for message in sample["messages"]] == ["system", "user", "assistant"]
    commit_manifest(answers, withheld=True)
    path = exported(again(answers), tmp_path / "withheld")
    with ZipFile(path) as log:
        assert not [name for name in log.namelist() if b"SECRET" in log.read(name)]


def test_an_incomplete_set_is_no_success(made: Made):
    header = documents(made(numbers(0, 3), total=5))["header.json"]
    assert header["status"] == "cancelled"
    assert header["results"]["total_samples"] == 5


def read_by_inspect(program: str, path: Path) -> Any:
    """Return the JSON that a program with Inspect prints of a log."""
    python = PEERS if PEERS.exists() else Path(sys.executable)
    found = subprocess.run([python, "-c", "import inspect_ai"], capture_output=True, check=False)
    if found.returncode:
        pytest.skip("inspect_ai is not installed: infra/install-peers.sh")
    done = subprocess.run(
        [python, "-c", program, path], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow  # `make test-slow` installs Inspect
def test_inspect_opens_the_log(repository: LocalRepository, tmp_path: Path):
    answers = publish(repository, mixed(), sampling=SamplingParams(temperature=0.6))
    file = score(answers)
    path = exported(answers, tmp_path / "out")
    overall = file.summary.overall
    assert read_by_inspect(READER, path) == {
        "status": "success" if answers.manifest.state == "complete" else "cancelled",
        "model": "org/tiny",
        "task": "sums",
        "samples": 7,
        "summaries": 7,
        "total": 7,
        "accuracy": overall.accuracy,
        "stderr": overall.accuracy_stderr,
        "scored": 6,
        "value": "I",
        "answer": "9",
        "text": "#### 9",
        "input": "How many?",
        "reasoning": ["reasoning", "text"],
        "error": "server said no",
        "temperature": 0.6,
        "tokens": 35,
    }


def test_grades_are_shares_of_their_scale_as_inspect_reads_them(
    repository: LocalRepository, tmp_path: Path
):
    found = documents(exported(graded(repository, "org/a", (1, 2, 3)), tmp_path / "out"))
    scores = [summary["scores"]["judge"] for summary in found["summaries.json"]]
    assert [score["value"] for score in scores[:3]] == ["I", 0.5, "C"]
    assert [score["metadata"] for score in scores[:3]] == [
        {"value on the scorer's scale": grade} for grade in (1, 2, 3)
    ]
    [score] = found["header.json"]["results"]["scores"]
    assert score["metrics"]["accuracy"]["value"] == pytest.approx(0.5)
    assert 0 < score["metrics"]["stderr"]["value"] < 0.1
    told = found["header.json"]["eval"]
    assert (told["model"], told["metadata"]["judged_model"]) == ("org/judge", "org/a")
    assert told["metadata"]["by_labels_of_people"] == "uncalibrated"


RED, BLUE = image(1), image(2, "JPEG")


def test_images_are_in_the_log_once_for_a_sample_and_come_back_with_the_importer(
    repository: LocalRepository, tmp_path: Path
) -> None:
    chat = [{"role": "system", "content": "Look."}, {"role": "user", "content": f"{RED.mark}What?"}]
    rows = [
        showing(0, RED, BLUE, text=f"I see {RED.mark} #### 0"),
        showing(1, RED, prompt=json.dumps(chat), prompt_kind="messages"),
        row(2),
    ]
    answers = publish_showing(repository, tmp_path / "spool", rows, [RED, BLUE])
    score(answers)

    path = exported(answers, tmp_path / "out")

    found = documents(path)
    first, second, third = (found[f"samples/sample-0000{n}_epoch_1.json"] for n in range(3))
    shown = [
        {"type": "text", "text": "Before "},
        {"type": "image", "image": f"attachment://{RED.sha256}"},
        {"type": "text", "text": " and "},
        {"type": "image", "image": f"attachment://{BLUE.sha256}"},
        {"type": "text", "text": " after."},
    ]
    assert first["input"] == [{"role": "user", "content": shown}]
    assert first["messages"][0] == {"role": "user", "content": shown, "source": "input"}
    assert first["messages"][1]["content"] == f"I see {RED.mark} #### 0"  # a model's own text
    assert first["attachments"] == {one.sha256: one.data_uri for one in (RED, BLUE)}
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant"]
    assert [part["type"] for part in second["messages"][1]["content"]] == ["image", "text"]
    assert (third["attachments"], type(third["input"])) == ({}, str)
    assert all(RED.mark not in json.dumps(one["input"]) for one in found["summaries.json"])
    imported = read(SourceFile(path), TableOptions())
    assert RED.mark in (imported.rows[1].prompt or "")


def test_images_that_must_not_be_copied_are_named_in_the_log(
    repository: LocalRepository, tmp_path: Path
) -> None:
    answers = publish_showing(repository, tmp_path / "spool", [showing(0, RED)], [RED])
    score(answers)

    path = exported(without_images(answers), tmp_path / "out")

    sample = documents(path)["samples/sample-00000_epoch_1.json"]
    assert sample["attachments"] == {}
    assert "row 0, not copied]" in json.dumps(sample["messages"])
    with ZipFile(path) as log:
        assert not [name for name in log.namelist() if b"base64" in log.read(name)]


def with_tools() -> list[dict[str, Any]]:
    """0: what an agent did; 1: calls that nobody ran, of which one is no object."""
    did = [
        PartedMessage("assistant", (Part("reasoning", "Hm."), call_of("c", "add", '{"x": 1}'))),
        PartedMessage("tool", (Part("tool_result", "none", "c", "add", is_error=True),)),
        PartedMessage("assistant", (Part("text", "It is #### 0"),)),
    ]
    calls = calls_text([("add", '{"x": 1}'), ("end", "{")])
    return [
        row(0, "It is #### 0", trajectory=trajectory_text(did)),
        row(1, "", tool_calls=calls),
    ]


@pytest.mark.slow  # `make test-slow` installs Inspect
def test_inspect_reads_images_calls_of_tools_and_scores(
    repository: LocalRepository, tmp_path: Path
) -> None:
    rows = [*with_tools(), showing(2, RED, BLUE, text="#### 9")]
    answers = publish_showing(repository, tmp_path / "spool", rows, [RED, BLUE])
    score(answers)

    agent, caller, seen = read_by_inspect(MESSAGES, exported(answers, tmp_path / "out"))

    assert agent["messages"] == [
        ["user", "What is 0?", []],
        ["assistant", "", [["add", {"x": 1}, None]]],
        ["tool", "none", []],
        ["assistant", "It is #### 0", []],
    ]
    assert (agent["failed"], agent["answer"]) == (["none"], "It is #### 0")
    [_, [_, _, calls]] = caller["messages"]
    assert calls == [["add", {"x": 1}, None], ["end", {}, "no JSON object: {"]]
    assert seen["input"] == [
        {"type": "text", "text": "Before "},
        {"type": "image", "image": RED.data_uri},
        {"type": "text", "text": " and "},
        {"type": "image", "image": BLUE.data_uri},
        {"type": "text", "text": " after."},
    ]
    assert [one["scores"] for one in (agent, caller, seen)] == [
        *({"number": value} for value in ("C", "C", "I"))
    ]


def test_what_an_agent_did_and_calls_of_tools_are_messages_of_the_log(made: Made) -> None:
    path = made(with_tools())

    found = documents(path)
    agent, caller = (found[f"samples/sample-0000{n}_epoch_1.json"] for n in range(2))
    roles = [message["role"] for message in agent["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant"]
    assert agent["messages"][1]["tool_calls"] == [
        {"id": "c", "function": "add", "type": "function", "arguments": {"x": 1}}
    ]
    assert agent["messages"][2]["error"] == {"type": "unknown", "message": "none"}
    assert agent["output"]["choices"][0]["message"]["content"] == "It is #### 0"
    one, other = caller["messages"][-1]["tool_calls"]
    assert (one["function"], one["arguments"]) == ("add", {"x": 1})
    assert (other["arguments"], other["parse_error"]) == ({}, "no JSON object: {")
    imported = read(SourceFile(path), TableOptions())
    assert [len(one.trajectory or ()) for one in imported.rows] == [3, 1]
