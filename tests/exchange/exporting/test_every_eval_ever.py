"""`regrade export --format every-eval-ever`: checked against its schemas (version 0.3.0, MIT: `every_eval_ever/LICENSE`)."""

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from regrade.answers.local import LocalRepository
from regrade.answers.sets import AnswerSet
from regrade.cli.main import run
from regrade.records.messages import Part, PartedMessage
from regrade.records.tools import calls_text
from regrade.records.trajectory import call_of, trajectory_text
from regrade.settings import SamplingParams
from tests.builders import row, session
from tests.command_line import ROOT
from tests.judged import graded, judge
from tests.pictures import image, publish_showing, showing
from tests.stored import again, commit_manifest, numbers, publish, score

PEERS = ROOT / ".peers/bin/python"
SCHEMAS = Path(__file__).with_name("every_eval_ever")
RESULT = json.loads((SCHEMAS / "eval.schema.json").read_text())
SAMPLE = json.loads((SCHEMAS / "instance_level_eval.schema.json").read_text())


Made = Callable[..., tuple[dict[str, Any], list[Any]]]


def mixed() -> list[dict[str, Any]]:
    """Right: 0-3, wrong: 4, unparsed: 5, failed: 6; 0 has a thought, 1 no question and no tokens."""
    return [
        row(0, question="How many?") | {"reasoning": "Let me see."},
        row(1, prompt=None, completion_tokens=None),
        *numbers(2, 4),
        row(4, "#### 9"),
        row(5, "I do not know."),
        row(6, text="x", error="server said no") | {"text": None},
    ]


def exported(answers: AnswerSet, folder: Path, *options: str) -> tuple[dict[str, Any], list[Any]]:
    """Result and samples, both valid."""
    set_id = answers.manifest.answer_set_id
    given = ["--format", "every-eval-ever", "--organization", "My team", *options]
    given += ["--answers", answers.repository.uri]
    assert run(["export", set_id, str(folder), *given]) == 0
    [path] = folder.rglob("*.json")
    result = json.loads(path.read_text())
    jsonschema.validate(result, RESULT)
    lines = [line for file in folder.rglob("*.jsonl") for line in file.read_bytes().splitlines()]
    samples = [json.loads(line) for line in lines]
    for sample in samples:
        jsonschema.validate(sample, SAMPLE)
        assert sample["evaluation_id"] == result["evaluation_id"]
    return result, samples


@pytest.fixture
def made(repository: LocalRepository, tmp_path: Path) -> Made:
    """Publishes rows, scores them and exports the answer set into the folder `out`."""

    def make(rows: list[dict[str, Any]], **changes: Any) -> tuple[dict[str, Any], list[Any]]:
        answers = publish(repository, rows, **changes)
        score(answers)
        return exported(answers, tmp_path / "out")

    return make


def test_results_and_samples_are_valid_and_make_up_no_score(made: Made, tmp_path: Path):
    sampling = SamplingParams(temperature=0.6, stop=("Q",))

    result, samples = made(mixed(), sampling=sampling)

    overall = result["evaluation_results"][0]
    details = overall["score_details"]
    assert details["score"] == pytest.approx(4 / 6)
    assert (details["details"]["failed"], details["details"]["unparsed"]) == ("1", "1")
    arguments = overall["generation_config"]["generation_args"]
    assert (arguments["temperature"], arguments["max_tokens"]) == (0.6, 512)
    assert "my-team" not in json.dumps(result)
    assert str(tmp_path) not in json.dumps(result)  # no path of this machine
    assert len(samples) == 6  # the failed one has no score, and none is made up
    assert samples[0]["input"]["raw"] == "How many?"
    assert samples[0]["output"]["reasoning_trace"] == ["Let me see."]
    assert samples[1]["input"]["raw"] == ""
    assert samples[1]["metadata"]["input"] == "not stored"
    assert "token_usage" not in samples[1]
    assert samples[5]["answer_attribution"] == []
    assert samples[5]["evaluation"] == {"score": 0.0, "is_correct": False}


def test_the_samples_file_is_named_and_hashed_as_its_data_repository_wants(
    repository: LocalRepository, tmp_path: Path
):
    answers = publish(repository, numbers(0, 3))
    score(answers)
    result, _ = exported(answers, tmp_path / "out")
    detailed = result["detailed_evaluation_results"]
    path = tmp_path / "out" / detailed["file_path"]
    assert re.fullmatch(r"data/sums/org/tiny/[0-9a-f-]{36}_samples\.jsonl", detailed["file_path"])
    assert hashlib.sha256(path.read_bytes()).hexdigest() == detailed["checksum"]
    assert detailed["total_rows"] == 3
    exported(answers, tmp_path / "out")  # the same names again
    assert len(list((tmp_path / "out").rglob("*.json*"))) == 2


def test_the_engine_is_that_of_the_last_session(repository: LocalRepository, tmp_path: Path):
    answers = publish(repository, numbers(0, 3))
    score(answers)
    imported = session(id=None, regrade_version="0.1.0", engine_version=None)
    commit_manifest(answers, sessions=[imported.model_dump(mode="json")])
    result, _ = exported(again(answers), tmp_path / "out")
    assert result["model_info"]["inference_engine"] == {"name": "vllm", "version": "unknown"}
    assert result["eval_library"] == {"name": "regrade", "version": "0.1.0"}


def test_repeats_have_their_averages(made: Made):
    rows = [
        row(n, f"#### {n + (repeat == 1 and n < 2)}", repeat=repeat)
        for n in range(4)
        for repeat in range(2)
    ]
    result, samples = made(rows, repeats=2, sampling=SamplingParams(temperature=0.6))
    values = {
        entry["metric_config"]["metric_name"]: entry["score_details"]["score"]
        for entry in result["evaluation_results"]
        if entry["evaluation_name"] == "sums"
    }
    assert (values["avg@2"], values["pass@2"]) == (0.75, 1.0)
    assert sorted(values) == ["avg@2", "maj@2", "pass@2"]
    assert [sample["metadata"]["repeat"] for sample in samples[:2]] == ["0", "1"]


def test_withheld_questions_are_left_out(
    repository: LocalRepository, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    answers = publish(repository, [row(n, question="SECRET?") for n in range(4)])
    score(answers)
    commit_manifest(answers, withheld=True)
    result, samples = exported(again(answers), tmp_path / "out")
    assert samples == []
    assert "detailed_evaluation_results" not in result
    assert "SECRET" not in json.dumps(result)
    assert "must not be published are left out" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--format", "every-eval-ever"], "`--organization NAME`"),
        (["--format", "inspect", "--organization", "x"], "are for `every-eval-ever`"),
        (["--format", "inspect", "--scorer", "exact"], "regrade score --answer-set"),
        (["--format", "csv"], "Invalid value"),
    ],
)
def test_bad_input_is_refused(
    repository: LocalRepository,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    options: list[str],
    message: str,
):
    answers = publish(repository, numbers(0, 3))
    score(answers)
    set_id = answers.manifest.answer_set_id
    given = ["export", set_id, str(tmp_path / "out"), *options, "--answers", repository.uri]
    assert run(given) == 2
    out, err = capfd.readouterr()
    assert message in out + err
    assert not (tmp_path / "out").exists()


def test_verdicts_are_results_of_the_judged_model_and_name_their_judge(
    repository: LocalRepository, tmp_path: Path
):
    result, samples = exported(graded(repository, "org/a", (1, 2, 3)), tmp_path / "out")

    [path] = (tmp_path / "out").rglob("*.json")
    assert path.parent.relative_to(tmp_path / "out").parts[-2:] == ("org", "a")
    assert (result["model_info"]["id"], "inference_engine" in result["model_info"]) == (
        "org/a",
        False,
    )
    told = {
        (sample["evaluation"]["score"], sample["evaluation"]["is_correct"]) for sample in samples
    }
    assert told == {(1, False), (2, False), (3, True)}
    assert {sample["model_id"] for sample in samples} == {"org/a"}
    assert samples[0]["output"]["raw"] == ["It is 0.\n#### 0"]  # the answer, not the judge's reply
    assert samples[0]["answer_attribution"][0]["source"] == "verdict of the judge"
    assert "token_usage" not in samples[0]
    overall = result["evaluation_results"][0]
    assert (overall["source_data"]["source_type"], "generation_config" in overall) == (
        "other",
        False,
    )
    config = overall["metric_config"]
    assert (config["min_score"], config["max_score"], config["metric_unit"]) == (1, 3, "points")
    assert overall["score_details"]["score"] == pytest.approx(2)
    [judge] = config["llm_scoring"]["judges"]
    assert judge["model_info"]["id"] == "org/judge"
    details = config["llm_scoring"]["additional_details"]
    assert (details["rubric"], details["by_labels_of_people"]) == ("accuracy_style", "uncalibrated")


def agentic() -> list[dict[str, Any]]:
    """0: an agent whose answer is its last message; 1: one that left a patch; 2: calls that nobody ran; 3: an answer in two messages."""
    call = call_of("c", "add", {"x": 1, "to": "a"})
    used = PartedMessage("assistant", (Part("reasoning", "Hm."), Part("text", "Wait."), call))
    result = PartedMessage("tool", (Part("tool_result", "2", "c", "add"),))
    last = PartedMessage("assistant", (Part("text", "It is #### 0"),))
    chat = json.dumps([{"role": "user", "content": "Add."}])
    did = trajectory_text([used, result, last])
    return [
        row(0, "It is #### 0", prompt=chat, prompt_kind="messages", trajectory=did),
        row(1, "+ #### 1", trajectory=trajectory_text([used, result])),
        row(2, "#### 2", tool_calls=calls_text([("add", '{"x": 1}'), ("end", "{")])),
        row(3, "#### 3", trajectory=trajectory_text([last, last])),
    ]


def test_what_an_agent_did_are_the_messages_of_an_agentic_sample(made: Made) -> None:
    _, samples = made(agentic())

    assert [sample["interaction_type"] for sample in samples] == [
        *("agentic", "agentic", "agentic", "multi_turn")
    ]
    assert {sample["output"] for sample in samples} == {None}
    agent, patched, caller, twice = samples
    assert [(m["turn_idx"], m["role"], m["content"]) for m in agent["messages"]] == [
        (0, "user", "Add."),
        (1, "assistant", "Wait."),
        (2, "tool", "2"),
        (3, "assistant", "It is #### 0"),
    ]
    call = {"id": "c", "name": "add", "arguments": {"x": "1", "to": '"a"'}}
    assert (agent["messages"][1]["tool_calls"], agent["messages"][1]["reasoning_trace"]) == (
        [call],
        "Hm.",
    )
    assert agent["messages"][2]["tool_call_id"] == ["c"]
    assert agent["evaluation"] == {
        "score": 1.0,
        "is_correct": True,
        "num_turns": 4,
        "tool_calls_count": 1,
    }
    places = [sample["answer_attribution"][0] for sample in samples]
    assert [(place["turn_idx"], place["source"]) for place in places] == [
        (3, "messages[3].content"),
        (2, "metadata.answer"),
        (1, "messages[1].content"),
        (2, "metadata.answer"),
    ]
    assert patched["metadata"]["answer"] == "+ #### 1"
    assert [call["arguments"] for call in caller["messages"][1]["tool_calls"]] == [
        {"x": "1"},
        {"no JSON object": "{"},
    ]
    assert twice["evaluation"]["tool_calls_count"] == 0


ADD = {"name": "add", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}
TURN = {"name": "turn", "description": "Turns."}


@pytest.mark.parametrize(
    ("docs", "config"),
    [
        (
            [{"tools": [ADD, TURN]}, {"tools": [ADD, TURN], "more": 1}],
            {
                "available_tools": [
                    {"name": "add", "description": "", "parameters": {"x": '{"type": "integer"}'}},
                    {"name": "turn", "description": "Turns.", "parameters": {}},
                ]
            },
        ),
        (
            [{"tools": [ADD]}, {"tools": [TURN]}],
            {"additional_details": {"available_tools": "differ by question"}},
        ),
        ([{}, {}], None),
        ([{"tools": 3}, {"tools": 3}], None),
        ([[1], "{"], None),
    ],
)
def test_functions_that_all_questions_offer_are_named(
    made: Made, docs: list[Any], config: dict[str, Any] | None
) -> None:
    texts = [doc if isinstance(doc, str) else json.dumps(doc) for doc in docs]
    rows = [row(n, f"#### {n}", doc=doc, tool_calls="[]") for n, doc in enumerate(texts)]

    result, _ = made([*rows, row(9, doc='{"tools": []}')])  # the last one without functions

    arguments = result["evaluation_results"][0]["generation_config"]["generation_args"]
    assert arguments.get("agentic_eval_config") == config


@pytest.mark.slow  # `make test-slow` installs its package
def test_its_own_validator_finds_neither_errors_nor_warnings(
    repository: LocalRepository, tmp_path: Path
) -> None:
    module = "every_eval_ever.validate"
    test = [PEERS, "-c", f"import {module}"]
    if not PEERS.exists() or subprocess.run(test, capture_output=True, check=False).returncode:
        pytest.skip("every-eval-ever is not installed: infra/install-peers.sh")
    red = image(1)
    shown = publish_showing(repository, tmp_path / "spool", [showing(0, red)], [red])
    sets = [publish(LocalRepository(tmp_path / "rows"), agentic() + mixed()[4:]), shown]
    for answers in sets:
        score(answers)
    for number, answers in enumerate([*sets, graded(repository, "org/a", (1, 2, 3))]):
        exported(answers, tmp_path / "out" / str(number))

    files = sorted((tmp_path / "out").rglob("*.json*"))
    done = subprocess.run(
        [PEERS, "-m", module, "--format", "json", *files],
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert len(json.loads(done.stdout)) == len(files) == 6


def test_a_later_turn_of_a_conversation_is_a_multi_turn_sample(made: Made) -> None:
    said = [("user", "One?"), ("assistant", "#### 1"), ("user", "Two?")]
    chat = json.dumps([{"role": role, "content": text} for role, text in said])
    later = row(1, prompt=chat, prompt_kind="messages") | {"sample_id": "q#2/2"}

    _, [first, second] = made([row(0) | {"sample_id": "q#1/2"}, later])

    assert (first["interaction_type"], second["interaction_type"]) == ("single_turn", "multi_turn")
    assert [message["role"] for message in second["messages"]] == [
        *("user", "assistant", "user", "assistant")
    ]
    assert second["answer_attribution"][0]["source"] == "messages[3].content"


def test_a_verdict_on_an_agent_has_what_the_agent_did(
    repository: LocalRepository, tmp_path: Path
) -> None:
    verdicts = judge(publish(repository, agentic()), lambda *_: "A")

    _, samples = exported(verdicts, tmp_path / "out")

    assert [sample["interaction_type"] for sample in samples[:3]] == ["agentic"] * 3
    assert [message["role"] for message in samples[0]["messages"]] == [
        *("user", "assistant", "tool", "assistant")
    ]
    assert samples[0]["answer_attribution"][0]["source"] == "verdict of the judge"


def test_images_are_files_beside_the_samples_that_name_them(
    repository: LocalRepository, tmp_path: Path
) -> None:
    red, blue = image(1), image(2, "JPEG")
    rows = [showing(0, red, blue), showing(1, red), row(2)]
    answers = publish_showing(repository, tmp_path / "spool", rows, [red, blue])
    score(answers)

    _, samples = exported(answers, tmp_path / "out")

    named = [sample["metadata"].get("images") for sample in samples]
    [place] = {path.parent.parent for path in (tmp_path / "out").rglob("*_images/*")}
    files = {
        path.relative_to(place).as_posix(): path.read_bytes() for path in place.glob("*_images/*")
    }
    red_name, blue_name = named[0].split(", ")
    assert named[1:] == [red_name, None]
    assert files == {red_name: red.content, blue_name: blue.content}
    assert Path(red_name).stem in samples[0]["input"]["raw"]


def without_images(answers: AnswerSet) -> AnswerSet:
    """The same answers, whose images are named by their place in the dataset alone."""
    repository, manifest = answers.repository, answers.manifest
    content = manifest.model_copy(update={"images": "source"}).model_dump_json().encode()
    head = str(repository.head())
    removed = list(repository.files(head, "images"))
    repository.commit(
        {f"{answers.folder}/manifest.json": content}, "x", parent=head, removed=removed
    )
    return again(answers)


def test_images_that_must_not_be_copied_are_named_by_their_place_in_the_dataset(
    repository: LocalRepository, tmp_path: Path
) -> None:
    red = image(1)
    answers = publish_showing(repository, tmp_path / "spool", [showing(0, red)], [red])
    score(answers)

    _, [sample] = exported(without_images(answers), tmp_path / "out")

    assert sample["metadata"]["images"].endswith("row 0, not copied]")
    assert not list((tmp_path / "out").rglob("*_images"))
