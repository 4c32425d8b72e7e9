"""Messages have parts: nothing of a prompt is lost, no plain text becomes a turn, and images stand where their marks do."""

import ast
import json
from pathlib import Path

import pytest

import regrade
from regrade.records.images import MARK, mark_of, read_image
from regrade.records.messages import (
    Part,
    PartedMessage,
    answer_message,
    message_of,
    parts_of,
    prompt_messages,
    with_short_marks,
)
from regrade.records.trajectory import plain_message
from tests.records.test_images import file_of

CHATML = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHow many?<|im_end|>\n<|im_start|>assistant\n"
LLAMA = "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHow many?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
GEMMA = "<bos><start_of_turn>user\nHow many?<end_of_turn>\n<start_of_turn>model\n"
MISTRAL = "<s>[INST] How many? [/INST]"
DEEPSEEK = "<\uff5cUser\uff5c>How many?<\uff5cAssistant\uff5c><think>\n"
HARMONY = "<|start|>user<|message|>How many?<|end|><|start|>assistant"


@pytest.mark.parametrize(
    ("prompt", "roles"),
    [
        (CHATML, ["system", "user", "assistant"]),
        (LLAMA, ["", "user", "assistant"]),
        (GEMMA, ["", "user", "model"]),
        (MISTRAL, ["", "user", "assistant"]),
        (DEEPSEEK, ["user", "assistant"]),
        (HARMONY, ["user"]),
        ("<|user|>\nHow many?<|end|>\n<|assistant|>\n", ["user", "assistant"]),
        ("Question: How many?\nAnswer:", [""]),
    ],
)
def test_a_template_is_read_as_its_turns_and_nothing_is_lost(prompt: str, roles: list[str]):
    turns = prompt_messages(prompt, "text", "chat")
    assert [turn.role for turn in turns] == roles
    assert "".join(turn.text for turn in turns) == prompt


def test_a_completion_prompt_has_no_turns_whatever_is_in_it():
    [turn] = prompt_messages(CHATML, "text", "completion")
    assert turn.text == CHATML


def test_messages_of_lm_evaluation_harness_are_turns():
    sent = [{"role": "user", "content": "How many?\nAnswer:", "type": "text"}]
    [turn] = prompt_messages(json.dumps(sent), "messages", "chat")
    assert (turn.role, turn.text) == ("user", "How many?\nAnswer:")


@pytest.mark.parametrize(
    "prompt",
    [
        "no JSON",
        '[{"role": "user", "content": "x", "type": "image"}]',
        "{}",
        "[]",
        "[1]",
        '[{"role": "user"}]',
        '[{"role": 1, "content": "x"}]',
        '[{"role": "user", "content": "x", "tool": 1}]',
        '[{"role": "user", "content": [{"type": "text", "text": "x"}]}]',
        '[{"role": "user", "parts": [{"type": "video"}]}]',
    ],
)
def test_messages_of_another_form_are_shown_as_they_are(prompt: str):
    [turn] = prompt_messages(prompt, "messages", "chat")
    assert (turn.role, turn.text) == ("", prompt)


def test_a_text_is_split_where_its_own_images_stand() -> None:
    red, blue = read_image(file_of("PNG")), read_image(file_of("PNG", "blue"))
    foreign = mark_of("0" * 64)
    text = f"{red.mark}What is{foreign} this, and{blue.mark}{red.mark}?"

    parts = parts_of(text, {red.sha256, blue.sha256})

    assert parts == (
        Part("image", red.mark, sha256=red.sha256),
        Part("text", f"What is{foreign} this, and"),
        Part("image", blue.mark, sha256=blue.sha256),
        Part("image", red.mark, sha256=red.sha256),
        Part("text", "?"),
    )
    assert parts_of(text, ()) == (Part("text", text),)
    assert with_short_marks(text, (red.sha256,)).startswith(f"[image {red.sha256[:8]}]What is<")


@pytest.mark.parametrize("kind", ["text", "messages"])
def test_a_prompt_shows_its_images_as_parts_in_both_kinds(kind: str) -> None:
    sha256 = "a" * 64
    content = f"What is{mark_of(sha256)} this?"
    rendered = f"<|im_start|>user\n{content}<|im_end|>\n"
    messages = json.dumps([{"role": "user", "content": content}])
    prompt = rendered if kind == "text" else messages

    [message] = prompt_messages(prompt, kind, "chat", [sha256])

    assert message.role == "user"
    assert [part.kind for part in message.parts] == ["text", "image", "text"]
    assert [part.sha256 for part in message.parts] == [None, sha256, None]
    [unlisted] = prompt_messages(prompt, kind, "chat", None)
    assert [part.kind for part in unlisted.parts] == ["text"]
    assert unlisted.text == message.text


def test_a_message_with_calls_of_tools_has_them_in_its_parts_whatever_its_content() -> None:
    call = {"type": "tool_call", "id": "c", "name": "add", "arguments": {"x": 1}}
    result = {"type": "tool_result", "id": "c", "name": "add", "text": "one"}
    stored = [
        {
            "role": "assistant",
            "content": "Adding.",
            "parts": [{"type": "text", "text": "Adding."}, call],
        },
        {"role": "tool", "content": "one", "parts": [result]},
        {"role": "user", "content": "And?"},
    ]

    messages = prompt_messages(json.dumps(stored), "messages", "chat")

    assert messages == [
        PartedMessage(
            "assistant",
            (Part("text", "Adding."), Part("tool_call", call="c", name="add", arguments={"x": 1})),
        ),
        PartedMessage("tool", (Part("tool_result", "one", "c", "add"),)),
        PartedMessage("user", (Part("text", "And?"),)),
    ]
    assert plain_message(messages[0]) == 'Adding.[calls add: {"x": 1}]'


def test_an_image_part_is_a_stored_image_only_if_its_row_lists_it() -> None:
    entry = {"role": "user", "parts": [{"type": "image", "text": mark_of("a" * 64)}]}

    for images, sha256 in ((["a" * 64], "a" * 64), ((), None)):
        message = message_of(entry, images)
        assert message is not None
        assert [part.sha256 for part in message.parts] == [sha256]


def test_an_answer_is_a_message_of_its_thought_its_text_and_its_calls() -> None:
    calls = json.dumps([{"name": "add", "arguments": {"x": 1}}, {"name": "end", "arguments": "{"}])
    row = {"reasoning": "Hm.", "text": None, "tool_calls": calls}

    assert answer_message(row).parts == (
        Part("reasoning", "Hm."),
        Part("text", ""),
        Part("tool_call", call="call-1", name="add", arguments={"x": 1}),
        Part("tool_call", call="call-2", name="end", arguments="{"),
    )
    assert answer_message(row | {"reasoning": None, "tool_calls": "no calls"}).parts == (
        Part("text", ""),
    )


READS_MARKS = {"records/images.py", "records/messages.py"}
LOOKS_FOR_ANY = {"pages/viewer/texts.py"}
"""It asks whether there is a mark at all, to spare the column `images` otherwise."""


def test_marks_are_read_in_one_place() -> None:
    package = Path(regrade.__file__).parent
    found = set()
    for path in package.rglob("*.py"):
        source = path.read_text()
        if not any(text in source for text in (MARK, "MARK", "hashes_at")):
            continue  # parsing all files takes seconds
        nodes = list(ast.walk(ast.parse(source)))
        texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
        named = {a.name for node in nodes if isinstance(node, ast.ImportFrom) for a in node.names}
        docs = {
            ast.get_docstring(node, clean=False)
            for node in nodes
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        }
        if any(MARK in str(text) for text in texts - docs) or named & {"MARK", "hashes_at"}:
            found.add(path.relative_to(package).as_posix())

    assert found == READS_MARKS | LOOKS_FOR_ANY
