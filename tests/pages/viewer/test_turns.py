"""Prompts as turns: nothing of a prompt is lost, and no plain text becomes a turn."""

import json

import pytest

from regrade.pages.viewer.answer_texts import turns_of

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
    turns = turns_of(prompt, "text", "chat")
    assert [turn.role for turn in turns] == roles
    assert "".join(turn.text for turn in turns) == prompt


def test_a_completion_prompt_has_no_turns_whatever_is_in_it():
    [turn] = turns_of(CHATML, "text", "completion")
    assert turn.text == CHATML


def test_messages_are_turns():
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "How many?"},
    ]
    turns = turns_of(json.dumps(messages), "messages", "chat")
    assert [(turn.role, turn.text) for turn in turns] == [
        ("system", "Be brief."),
        ("user", "How many?"),
    ]


def test_messages_of_lm_evaluation_harness_are_turns():
    sent = [{"role": "user", "content": "How many?\nAnswer:", "type": "text"}]
    [turn] = turns_of(json.dumps(sent), "messages", "chat")
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
    ],
)
def test_messages_of_another_form_are_shown_as_they_are(prompt: str):
    [turn] = turns_of(prompt, "messages", "chat")
    assert (turn.role, turn.text) == ("", prompt)
