import json
from pathlib import Path
from typing import Any

import pytest

from regrade.answers.verify import verify
from regrade.exchange.importing.base import ImportedSet, Reported, TableOptions
from regrade.exchange.importing.files import ImportFileError, SourceFile
from regrade.exchange.importing.importer import import_files, load_reader
from regrade.scorers.programs.task import read_task
from tests.exchange.importing.writing import archive, document, read, sets
from tests.pages.viewer.reading import Reader
from tests.pictures import image


def header(**changes: Any) -> dict[str, Any]:
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "task": "suite/sums",
            "model": "openai/gpt",
            "dataset": {"location": "org/sums", "samples": 9, "sample_ids": ["b", "a"]},
            "config": {"epochs": 2, "limit": 2},
            "model_generate_config": {"max_tokens": 64},
            "packages": {"inspect_ai": "0.3.133"},
        },
        "plan": {"config": {"temperature": 0.5}},
        "results": {
            "total_samples": 4,
            "completed_samples": 4,
            "scores": [
                {
                    "name": "match",
                    "metrics": {"accuracy": {"value": 0.75}, "stderr": {"value": 0.2}},
                }
            ],
        },
    } | changes


def sample(
    identity: object = "a", epoch: int = 1, value: object = "C", **changes: Any
) -> dict[str, Any]:
    return {
        "id": identity,
        "epoch": epoch,
        "input": "2+2?",
        "target": "4",
        "messages": [
            {"id": "x", "role": "system", "content": "Be short."},
            {"id": "y", "role": "user", "content": "2+2?"},
            {"id": "z", "role": "assistant", "content": "4"},
        ],
        "output": {
            "choices": [{"message": {"role": "assistant", "content": "4"}, "stop_reason": "stop"}],
            "usage": {"input_tokens": 11, "output_tokens": 1},
            "time": 0.5,
        },
        "scores": {"match": {"value": value, "answer": "4"}},
    } | changes


def agent(**changes: Any) -> dict[str, Any]:
    """A sample as Inspect 0.3.285 stores an agent that called a tool."""
    call = {"id": "c", "function": "add", "arguments": {"x": 2, "y": 2}, "type": "function"}
    messages = [
        {"role": "system", "content": "Use tools."},
        {"role": "user", "content": "2+2?", "source": "input"},
        {"role": "assistant", "content": "Adding.", "source": "generate", "tool_calls": [call]},
        {"role": "tool", "content": "4", "tool_call_id": "c", "function": "add"},
        {"role": "assistant", "content": "4", "source": "generate"},
    ]
    return sample(messages=messages) | changes


def log(path: Path, *samples: dict[str, Any], **changes: Any) -> ImportedSet:
    return read(document(path / "log.json", header(**changes) | {"samples": list(samples)}))


def test_a_log_tells_model_task_and_size(tmp_path: Path):
    found = log(tmp_path, sample())

    assert (found.model, found.benchmark) == ("openai/gpt", "suite/sums")
    assert (found.n_samples, found.repeats, found.limit, found.format) == (2, 2, 2, "chat")
    assert found.recorded["sampling"] == {"temperature": 0.5, "max_tokens": 64}
    assert found.originals[0].reported == Reported(0.75, 0.2, 4)


def test_both_kinds_of_log_hold_the_same(tmp_path: Path):
    samples = [sample("a", 1), sample("b", 2), sample("b", 1), sample("a", 2)]
    whole = log(tmp_path, *samples)
    members = {f"samples/{s['id']}_epoch_{s['epoch']}.json": s for s in samples}
    zipped = read(archive(tmp_path / "log.eval", {"header.json": header(), **members}))

    assert zipped == whole
    assert [(row.index, row.repeat) for row in whole.rows] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_row_keeps_what_was_sent_and_what_came_back(tmp_path: Path):
    [row] = log(tmp_path, sample()).rows

    sent = [{"content": "Be short.", "role": "system"}, {"content": "2+2?", "role": "user"}]
    assert json.loads(row.prompt or "") == sent
    assert (row.prompt_kind, row.text, row.finish_reason) == ("messages", "4", "stop")
    assert (row.prompt_tokens, row.completion_tokens, row.latency) == (11, 1, 0.5)


def test_scores_are_read_as_inspect_reads_them(tmp_path: Path):
    values = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, True: 1.0, 0.25: 0.25, "odd": None}
    for value, expected in values.items():
        [row] = log(tmp_path, sample(value=value)).rows
        assert row.scores["match"].value == expected
    [row] = log(tmp_path, sample(value={"style": 1, "truth": 0})).rows
    assert {name: score.value for name, score in row.scores.items()} == {
        "match/style": 1.0,
        "match/truth": 0.0,
    }


def test_metadata_that_are_a_row_of_a_benchmark_reach_its_scorer(tmp_path: Path):
    followed = {
        "instruction_id_list": ["punctuation:no_comma", "keywords:existence"],
        "kwargs": {"0": {}, "1": {"keywords": ["a"]}},
    }
    program = {"prompt": "def f():\n", "test": "def check(c): pass", "entry_point": "f"}

    found = log(
        tmp_path,
        sample("b", input="Write.", metadata=followed),
        sample("a", metadata=program),
        sample("c", metadata={"level": 3}),
    )

    first, second, third = (row.doc for row in found.rows)
    assert json.loads(str(first)) == {
        "prompt": "Write.",
        "instructions": [
            {"id": "punctuation:no_comma", "kwargs": {}},
            {"id": "keywords:existence", "kwargs": {"keywords": ["a"]}},
        ],
    }
    assert read_task("s", str(second)).function == "f"
    assert third is None


def test_texts_that_a_log_keeps_apart_are_put_back(tmp_path: Path):
    attached = sample(input="attachment://abc", attachments={"abc": "long text"})
    assert log(tmp_path, attached).rows[0].question == "long text"
    with pytest.raises(ImportFileError, match="attachment"):
        log(tmp_path, sample(input="attachment://abc"))


def test_reasoning_is_kept_apart_from_the_text(tmp_path: Path):
    content = [{"type": "reasoning", "reasoning": "Two twos."}, {"type": "text", "text": "4"}]
    output = {"choices": [{"message": {"content": content}, "stop_reason": "max_tokens"}]}
    [row] = log(tmp_path, sample(output=output)).rows
    assert (row.text, row.reasoning, row.finish_reason) == ("4", "Two twos.", "length")
    del content[1]
    [row] = log(tmp_path, sample(output=output)).rows
    assert (row.text, row.reasoning) == ("", "Two twos.")


def test_a_sample_that_failed_is_missing_and_not_wrong(tmp_path: Path):
    examples = [{"role": role, "content": "?"} for role in ("user", "assistant", "user")]
    failed = {"output": {"choices": []}, "error": {"message": "timed out"}, "scores": None}
    [row] = log(tmp_path, sample(messages=examples, **failed)).rows
    assert json.loads(row.prompt or "") == examples
    assert (row.text, row.error, row.scores) == (None, "timed out", {})
    assert log(tmp_path, sample(output={"choices": []})).rows[0].text is None


def test_several_right_answers_are_no_one_target(tmp_path: Path):
    assert log(tmp_path, sample(target=["4", "four"])).rows[0].target is None
    assert log(tmp_path, sample(target=["4"])).rows[0].target == "4"


def test_a_run_that_was_killed_leaves_what_it_had(tmp_path: Path):
    start = {key: value for key, value in header().items() if key in ("version", "eval", "plan")}
    members = {"_journal/start.json": start, "samples/a_epoch_1.json": sample()}
    found = read(archive(tmp_path / "log.eval", members))
    assert (found.model, len(found.rows), found.n_samples) == ("openai/gpt", 1, 9)


def test_an_archive_that_is_no_log_is_refused(tmp_path: Path):
    with pytest.raises(ImportFileError, match="not an Inspect log"):
        read(archive(tmp_path / "log.eval", {"other.json": {}}))


@pytest.mark.parametrize(
    ("messages", "question"),
    [
        ([("user", "2+2?")], "2+2?"),
        ([("system", "Be short."), ("user", "2+2?")], "2+2?"),
        ([("user", "1+1?"), ("assistant", "2"), ("user", "2+2?")], None),
        ([("system", "Be short.")], None),
        ([], None),
    ],
)
def test_the_question_is_the_only_message_of_the_user(
    tmp_path: Path, messages: list[tuple[str, str]], question: str | None
):
    sent = [{"role": role, "content": content} for role, content in messages]
    [row] = log(tmp_path, sample(input=sent)).rows
    assert row.question == question
    assert json.loads(row.content) == sent
    [row] = log(tmp_path, sample()).rows
    assert row.question == row.content == "2+2?"


def test_images_of_a_prompt_are_stored_beside_its_answers_and_shown(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "answers")
    red, blue = image(1), image(2, "JPEG")
    asked = [{"type": "text", "text": "Which?"}, {"type": "image", "image": "attachment://k"}]
    sent = [{"role": "user", "content": asked}, sample()["messages"][2]]
    seen = sample("a", input=sent[:1], messages=sent, attachments={"k": red.data_uri})
    other = sample("b") | {"attachments": {}}
    for name, attached in (("one", red), ("two", blue)):
        changed = {"eval": header()["eval"] | {"model": name}}
        samples = [seen | {"attachments": {"k": attached.data_uri}}, other]
        content = json.dumps(header(**changed) | {"samples": samples})
        (tmp_path / f"{name}.json").write_text(content)

    imported = import_files(reader.repository, [tmp_path / "one.json", tmp_path / "two.json"])
    again = import_files(reader.repository, [tmp_path / "one.json"])

    assert again.revision == imported.revision == reader.repository.head()
    for one, attached in zip(imported.sets, (red, blue), strict=True):
        assert one.answers.manifest.images == "stored"
        assert one.answers.images.read(attached.sha256).content == attached.content
        [plain, row] = (
            r for b in one.answers.batches(["images", "question"]) for r in b.to_pylist()
        )
        assert row == {"images": [attached.sha256], "question": f"Which?\n{attached.mark}"}
        assert plain["images"] is None
    assert verify(reader.repository, imported.revision).problems == []
    answers = imported.sets[0].answers
    path = f"/sets/{answers.manifest.answer_set_id}"
    [_, sample_id] = (r for b in answers.batches(["sample_id"]) for r in b["sample_id"].to_pylist())
    page = reader.page(f"{path}/answer?sample={sample_id}&number=0").html
    assert page.count(f'<img src="{path}/image/{red.sha256}?at=') == 2  # question and prompt
    assert reader.get(f"{path}/image/{red.sha256}").status == 200


def test_what_an_agent_did_is_its_trajectory_and_its_prompt_ends_before(tmp_path: Path):
    [row] = log(tmp_path, agent()).rows
    assert [turn["role"] for turn in json.loads(row.prompt or "")] == ["system", "user"]
    assert [message.role for message in row.trajectory or ()] == ["assistant", "tool", "assistant"]
    assert (row.trajectory or ())[0].parts[1].arguments == {"x": 2, "y": 2}
    assert (row.text, row.scores["match"].value) == ("4", 1.0)
    assert log(tmp_path, sample()).rows[0].trajectory is None


def test_long_texts_of_an_agent_are_read_from_the_attachments(tmp_path: Path):
    found = agent(attachments={"k": "a long result"})
    found["messages"][3]["content"] = "attachment://k"
    [row] = log(tmp_path, found).rows
    assert (row.trajectory or ())[1].parts[0].text == "a long result"


def test_answers_that_are_part_of_the_question_are_no_trajectory(tmp_path: Path):
    given = [
        {"role": "user", "content": "1+1?"},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": "2+2?"},
    ]
    made = agent()["messages"][2:]
    [row] = log(tmp_path, agent(input=given, messages=[*given, *made])).rows
    assert len(json.loads(row.prompt or "")) == 3
    assert len(row.trajectory or ()) == 3


def test_only_the_mean_is_reported_of_scores_that_are_reduced_in_several_ways(tmp_path: Path):
    by = {"max": 1.0, "mean": 0.75, "pass_at_2": 0.9}
    scores = [
        {"name": "match", "reducer": name, "metrics": {"accuracy": {"value": value}}}
        for name, value in by.items()
    ]
    content = header(results={"total_samples": 1, "scores": scores}) | {"samples": [sample()]}
    file = SourceFile(document(tmp_path / "log.json", content))
    [found] = sets("inspect", file)
    assert [(o.name, o.reported) for o in found.originals] == [("match", Reported(0.75))]
    assert file.unread == ["reported match (max)", "reported match (pass_at_2)"]


def test_what_a_log_has_beside_the_answers_is_named(tmp_path: Path):
    score = {"value": "C", "answer": "4", "explanation": "It is.", "metadata": {"x": 1}}
    content = header() | {"samples": [sample(metadata={"y": 2}, scores={"match": score})]}
    file = SourceFile(document(tmp_path / "log.json", content))
    load_reader("inspect")(file, TableOptions())
    assert file.unread == ["metadata", "scores.match.explanation", "scores.match.metadata"]
