"""`regrade export --format inspect`: read back by our importer, and opened by Inspect's own reader."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from regrade.cli.main import run
from regrade.exchange.importing.base import TableOptions
from regrade.exchange.importing.building import Built, Names, build
from regrade.exchange.importing.files import ImportFileError, SourceFile
from regrade.exchange.importing.inspect_log import read
from regrade.records.messages import Part, PartedMessage
from regrade.records.specification import PromptIdentity
from regrade.records.tools import calls_text
from regrade.records.trajectory import call_of, trajectory_text
from regrade.settings import SamplingParams
from tests.builders import row
from tests.command_line import ROOT
from tests.exchange.exporting.test_every_eval_ever import mixed, without_images
from tests.exchange.importing.writing import archive
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


def imported_from(path: Path) -> Built:
    file = SourceFile(path)
    return build(file, "inspect", read(file, TableOptions()), Names())


def of_texts() -> list[dict[str, Any]]:
    """Own prompts and documents, a cut thought, calls of tools, and a failed request."""
    turns = [("user", "1+1?"), ("assistant", "2"), ("user", "How many?")]
    chat = json.dumps([{"role": role, "content": content} for role, content in turns])
    cut = {"text": "", "reasoning_open": True, "reasoning": "Hm", "finish_reason": "length"}
    return [
        row(0, prompt="<|im_start|>user\nHow many?<|im_end|>\n", doc='{"tests": []}', latency=None),
        row(1, prompt=chat, prompt_kind="messages", question="How many?", time_to_first_token=0.1),
        row(2, prompt_truncated=True) | cut,
        *(repeated | {"index": 40} for repeated in (row(3), row(3, repeat=1, target=None))),
        row(4, "", tool_calls=calls_text([("add", '{"x": 1}')])),
        row(5, error="refused", error_permanent=True) | {"text": None},
        with_tools()[0] | {"sample_id": "sample-00000#1/2", "index": 50},
    ]


def of_ranked_choices() -> list[dict[str, Any]]:
    ranked = {"choices": ["A", "B"], "target": "B", "label_logprobs": [-1.0, -2.0], "text": None}
    known = {"label_method": "per_choice", "label_is_greedy": [True, False]}
    texts = {"continuations": [" a", " b"], "contexts": ["So", "Thus"]}
    return [row(0) | ranked | known, row(1) | ranked | texts]


@pytest.mark.parametrize(
    ("rows", "scorer", "changes"),
    [
        (of_texts, "number_strict", {"repeats": 2}),
        (of_ranked_choices, "choice_logprob", {"method": "rank", "sampling": None}),
    ],
)
def test_an_export_that_is_imported_has_the_same_rows_but_for_the_values_of_tokens(
    repository: LocalRepository,
    tmp_path: Path,
    rows: Callable[[], list[dict[str, Any]]],
    scorer: str,
    changes: dict[str, Any],
):
    prompt = PromptIdentity(format="completion", template="Q: {{ question }}", n_shots=2)
    answers = publish(repository, rows(), prompt=prompt, scorers=(scorer,), **changes)
    commit_manifest(answers, groups={"all": ["even", "odd"]})
    answers = again(answers)
    score(answers, scorer)

    built = imported_from(exported(answers, tmp_path / "out"))

    key = itemgetter("sample_id", "repeat")
    assert sorted(built.table.to_pylist(), key=key) == sorted(rows(), key=key)
    described = built.description
    assert (described.scorers, described.groups) == ((scorer,), {"all": ("even", "odd")})
    original, found = answers.manifest.specification, described.specification
    assert (found.prompt, found.method) == (prompt, original.method)
    assert found.model.revision == original.model.revision
    assert (found.model.kind, found.benchmark.split) == ("imported", original.benchmark.split)


def test_scores_of_an_export_are_imported_as_original_scores(
    repository: LocalRepository, tmp_path: Path
):
    answers = publish(repository, mixed(), sampling=SamplingParams(temperature=0.6))
    file = score(answers)
    imported = read(SourceFile(exported(answers, tmp_path / "out")), TableOptions())
    assert imported.n_samples == 7
    assert [row.scores["number"].value for row in imported.rows[:6]] == [1, 1, 1, 1, 0, 0]
    assert "number" not in imported.rows[6].scores
    [original] = imported.originals
    assert original.reported is not None
    assert original.reported.value == file.summary.overall.accuracy


def edited(path: Path, edit: Callable[[dict[str, Any]], object]) -> Path:
    """A log whose first sample a person changed."""
    found = documents(path)
    edit(found["samples/sample-00000_epoch_1.json"])
    return archive(path.with_name("edited.eval"), found)


@pytest.mark.parametrize("place", ["messages", "target"])
def test_a_question_that_was_changed_in_an_export_is_another_one(
    made: Made, caplog: pytest.LogCaptureFixture, place: str
):
    path = made(numbers(0, 2))

    def edit(sample: dict[str, Any]) -> None:
        if place == "target":
            sample["target"] = "7"
        else:
            sample["messages"][0]["content"] = "What is 7?"

    table = imported_from(edited(path, edit)).table

    changed, kept = table["sample_id"].to_pylist()
    assert kept == "sample-00001"
    assert re.fullmatch("[0-9a-f]{16}", changed)
    assert table["subset"].to_pylist() == ["even", "odd"]
    assert "compared with the original ones: 1" in caplog.text


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        (
            "label_logprobs",
            ["x"],
            r"row 0: in 'metadata\.regrade', 'label_logprobs' cannot be \['x'\]",
        ),
        ("subset", None, "'subset' is missing"),
        ("doc", "\ud800", "'doc' cannot be"),
    ],
)
def test_columns_in_an_export_that_cannot_be_stored_are_refused_with_their_row(
    made: Made, name: str, value: object, says: str
):
    path = made(numbers(0, 1))
    with pytest.raises(ImportFileError, match=says):
        imported_from(
            edited(path, lambda sample: sample["metadata"]["regrade"].update({name: value}))
        )


def test_no_file_is_loaded_for_the_scorer_that_an_export_names(made: Made, tmp_path: Path):
    (tmp_path / "evil.py").write_text("raise SystemExit")
    found = documents(made(numbers(0, 1)))
    named = found["header.json"]["eval"]["metadata"]["regrade"]
    named["scorers"] = [f"{tmp_path / 'evil.py'}:x", "judge", "exact"]
    assert imported_from(archive(tmp_path / "a.eval", found)).description.scorers == ("exact",)
    named["specification"]["prompt"]["format"] = "song"
    with pytest.raises(ImportFileError, match="the settings of its prompts cannot be read"):
        imported_from(archive(tmp_path / "b.eval", found))


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
    assert first["attachments"] == {image.sha256: image.data_uri for image in (RED, BLUE)}
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant"]
    assert [part["type"] for part in second["messages"][1]["content"]] == ["image", "text"]
    assert (third["attachments"], type(third["input"])) == ({}, str)
    assert all(RED.mark not in json.dumps(summary["input"]) for summary in found["summaries.json"])
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
    return [row(0, "It is #### 0", trajectory=trajectory_text(did)), row(1, "", tool_calls=calls)]


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
    assert [sample["scores"] for sample in (agent, caller, seen)] == [
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
    assert [len(row.trajectory or ()) for row in imported.rows] == [3, 0]
