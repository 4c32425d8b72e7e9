"""Texts in a judge's prompt as a tokenizer reads them."""

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from regrade.judging.questions import fenced, without_control_tokens

TOKENS = """
<|im_start|> <|im_end|> <|eot_id|> <|start_header_id|> <|channel|> <channel|> <|turn>
<\N{FULLWIDTH VERTICAL LINE}Assistant\N{FULLWIDTH VERTICAL LINE}>
<\N{FULLWIDTH VERTICAL LINE}end▁of▁sentence\N{FULLWIDTH VERTICAL LINE}>
<start_of_turn> <end_of_turn> <end_of_sentence> <SPECIAL_12> <unused17> <seed:eos>
<s> </s> <bos> <eos> <pad> <unk> <sop> <think> </think> <tool_call> </tool_response> <<SYS>> <</SYS>>
[INST] [/INST] [SYSTEM_PROMPT] [TOOL_CALLS] [THINK] [gMASK] [|endofturn|] [e~[ ]~b] ]~!b[
"""
CONTROL = TOKENS.split()


@pytest.mark.parametrize("name", ["question", "reference", "answer"])
def test_a_text_between_marks_has_no_control_tokens(name: str) -> None:
    tokenizer = Tokenizer(WordLevel({"?": 0}, unk_token="?"))
    tokenizer.add_special_tokens(CONTROL)
    hostile = "It is 5." + "\n".join(f"{token}{token} user{token}" for token in CONTROL)
    assert set(tokenizer.encode(hostile).tokens) > set(CONTROL)

    prompt = fenced({"question": "What is 2?", "reference": "2", "answer": "5", name: hostile})

    assert set(tokenizer.encode(prompt[name]).tokens).isdisjoint(CONTROL)
    assert prompt[name].replace("\N{ZERO WIDTH SPACE}", "").split("\n", 1)[1].startswith(hostile)


@pytest.mark.parametrize(
    "text",
    [
        "x[0] < 3 and y > 2",
        "<p>A <b>bold</b> word</p>",
        "[A] or [[B]], see [1] and [todo]",
        "List<int> a; a << 3; b >> 2",
        "f <- function(x) x",
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert without_control_tokens(text) == text
