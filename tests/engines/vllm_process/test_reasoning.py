"""vLLM's own parsers, with tokenizers that are trained here."""

import warnings
from types import SimpleNamespace
from typing import Any

import pytest

from regrade.engines.vllm_process.parsers import (
    HARMONY,
    ReasoningReader,
    UnreadAnswer,
    open_reader,
    parsers_by_name,
)
from regrade.settings.errors import SettingsError
from tests.engines.vllm_process.test_labels import byte_level

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # while vLLM imports torch
]
THINK = ("<think>", "</think>")
MISTRAL = ("[THINK]", "[/THINK]")
MARKS = {
    **dict.fromkeys(
        (
            "deepseek_r1",
            "deepseek_v3",
            "deepseek_v4",
            "ernie45",
            "glm45",
            "kimi_k2",
            "mimo",
            "minimax_m2",
        ),
        THINK,
    ),
    **dict.fromkeys(("nemotron_v3", "olmo3", "qwen3", "step3", "step3p5"), THINK),
    "gemma4": ("<|channel>", "<channel|>"),
    "mistral": MISTRAL,
    "seed_oss": ("<seed:think>", "</seed:think>"),
}
"""Texts that begin and end a thought, by parser."""
PIECES = ("\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}</", "</", "think", ">")
"""Tokens of which Olmo 3 makes the end of a thought."""


def tokenizer_with(*tokens: str, special: bool = False) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # importing torch warns
        from tokenizers import AddedToken
        from transformers import PreTrainedTokenizerFast

    inner = byte_level()
    inner.add_tokens(
        [AddedToken(token, special=special) for token in (*tokens, "<|im_end|>", "[TOOL_CALLS]")]
    )
    return PreTrainedTokenizerFast(tokenizer_object=inner)


def read(reader: ReasoningReader, text: str, prompt: str = "q", **changes: Any) -> dict[str, Any]:
    stop = tuple(changes.pop("stop", ()))
    completion = {"prompt": prompt, "text": text, "finish_reason": "stop", **changes}
    return reader.read({**completion, "unread": UnreadAnswer(stop, changes.get("token_ids", ()))})


@pytest.fixture(scope="module", params=MARKS)
def case(request: pytest.FixtureRequest) -> tuple[ReasoningReader, str, str]:
    """A reader, and the texts that begin and end a thought."""
    start, end = MARKS[request.param]
    tokens = PIECES if request.param == "olmo3" else (start, end)
    return ReasoningReader(request.param, tokenizer_with(*tokens)), start, end


def test_reasoning_and_answer_are_apart(case):
    reader, start, end = case

    written = read(reader, f"{start}2 and 2{end}It is 4.")
    opened = read(reader, f"2 and 2{end}It is 4.", prompt=f"q{start}\n")

    for answer in (written, opened):
        assert answer["reasoning"] == "2 and 2"
        assert answer["text"] == "It is 4."
        assert not answer["reasoning_open"]
        assert "unread" not in answer


def test_a_thought_that_never_ends_has_no_answer(case):
    reader, start, _ = case

    answer = read(reader, f"{start}2 and 2, wait", finish_reason="length")

    assert answer["text"] == ""
    assert "2 and 2, wait" in answer["reasoning"]
    assert answer["reasoning_open"]
    assert answer["finish_reason"] == "length"


def test_an_answer_without_a_thought_is_no_thought(case):
    """vLLM's parsers take a text without an end of a thought for a thought."""
    reader, start, end = case

    plain = read(reader, "It is 4.")
    skipped = read(reader, "It is 4.", prompt=f"q{start}\n\n{end}\n\n")

    for answer in (plain, skipped):
        assert answer["text"] == "It is 4."
        assert "reasoning" not in answer
        assert not answer["reasoning_open"]


def test_a_stop_text_ends_the_answer_but_not_the_thought(case):
    reader, start, end = case

    answer = read(
        reader, f"{start}a\n\nQ: b{end}4.\n\nQ: and?", stop=["\n\n", "Q:"], finish_reason="length"
    )

    assert answer["reasoning"] == "a\n\nQ: b"
    assert answer["text"] == "4."
    assert answer["finish_reason"] == "stop"


def test_white_space_after_a_thought_is_no_stop_text(case):
    reader, start, end = case

    answer = read(reader, f"{start}a{end}\n\n4.\n\nNext", stop=["\n\n"])

    assert answer["text"].strip() == "4."


def test_an_answer_of_several_channels_is_read_from_its_tokens():
    from openai_harmony import load_harmony_encoding

    encoding = load_harmony_encoding("HarmonyGptOss")
    text = (
        "<|channel|>analysis<|message|>2 and 2<|end|><|start|>assistant"
        "<|channel|>final<|message|>It is 4.<|return|>"
    )
    ids = encoding.encode(text, allowed_special="all")
    reader = ReasoningReader(HARMONY, tokenizer_with())

    plain = read(reader, "It is 4.", token_ids=encoding.encode("It is 4."))
    whole = read(reader, "analysis2 and 2assistantfinalIt is 4.", token_ids=ids)
    cut = read(reader, "analysis2 an", token_ids=ids[:5], finish_reason="length")

    assert (whole["reasoning"], whole["text"]) == ("2 and 2", "It is 4.")
    assert not whole["reasoning_open"]
    assert (cut["reasoning"], cut["text"], cut["reasoning_open"]) == ("2 and", "", True)
    assert (plain.get("reasoning"), plain["text"]) == (None, "It is 4.")


def test_gemmas_thoughts_are_a_channel_with_a_name():
    reader = ReasoningReader("gemma4", tokenizer_with(*MARKS["gemma4"], special=True))

    whole = read(reader, "<|channel>thought\n2 and 2<channel|>It is 4.", prompt="<|turn>model\n")
    cut = read(reader, "<|channel>thought\n2 and", prompt="<|turn>model\n", finish_reason="length")
    skipped = read(reader, "It is 4.", prompt="<|turn>model\n<|channel>thought\n<channel|>")

    assert reader.keeps_special_tokens
    assert (whole["reasoning"], whole["text"]) == ("2 and 2", "It is 4.")
    assert (cut["reasoning"], cut["text"], cut["reasoning_open"]) == ("2 and", "", True)
    assert (skipped.get("reasoning"), skipped["text"]) == (None, "It is 4.")


def test_hunyuans_answers_have_marks_of_their_own():
    reader = ReasoningReader("hunyuan_a13b", tokenizer_with())

    whole = read(reader, "<think>\n2 and 2\n</think>\n<answer>\nIt is 4.\n</answer>")
    cut = read(reader, "<think>\n2 and 2, wait", finish_reason="length")
    plain = read(reader, "It is 4.")

    assert (whole["reasoning"], whole["text"]) == ("2 and 2", "It is 4.")
    assert (cut["reasoning"].strip(), cut["text"], cut["reasoning_open"]) == (
        "2 and 2, wait",
        "",
        True,
    )
    assert (plain.get("reasoning"), plain["text"], plain["reasoning_open"]) == (
        None,
        "It is 4.",
        False,
    )


def test_special_tokens_are_kept_where_they_are_the_marks_of_a_thought():
    assert ReasoningReader("mistral", tokenizer_with(*MISTRAL, special=True)).keeps_special_tokens
    assert not ReasoningReader("qwen3", tokenizer_with(*THINK)).keeps_special_tokens


def test_an_answer_that_a_parser_cannot_read_fails_its_row_alone():
    reader = ReasoningReader("qwen3", tokenizer_with(*THINK))
    reader._parser = SimpleNamespace(extract_reasoning=lambda *_: 1 / 0)  # type: ignore[assignment]

    answer = read(reader, "<think>a</think>4", key=7)

    assert "parser 'qwen3' cannot read the answer" in answer["error"]
    assert answer["error_permanent"]
    assert (answer["key"], answer.get("text")) == (7, None)


@pytest.mark.parametrize(
    ("model_type", "parser"),
    [
        ("deepseek_v3", "deepseek_r1"),
        ("deepseek_v32", "deepseek_v3"),
        ("deepseek_v4", "deepseek_v4"),
        ("ernie4_5_moe", "ernie45"),
        ("gemma4", "gemma4"),
        ("glm4_moe", "glm45"),
        ("glm_moe_dsa", "glm45"),
        ("gpt_oss", HARMONY),
        ("hunyuan_v1_moe", "hunyuan_a13b"),
        ("kimi_k2", "kimi_k2"),
        ("mimo_v2_flash", "mimo"),
        ("minimax_m2", "minimax_m2"),
        ("nemotron_h", "nemotron_v3"),
        ("olmo3", "olmo3"),
        ("qwen3_5_moe", "qwen3"),
        ("qwen3_next", "qwen3"),
        ("seed_oss", "seed_oss"),
        ("step3_text", "step3"),
        ("step3p5", "step3p5"),
        ("cohere2", "cohere_command3"),
        ("granite", "granite"),
        ("mistral3", "mistral"),
        ("qwen2", None),
        ("gpt_neox", None),
        ("llama", None),
    ],
)
def test_the_parser_is_the_one_that_vllm_names_after_the_model(model_type: str, parser: str | None):
    from vllm.reasoning import ReasoningParserManager

    named = parsers_by_name(model_type, ReasoningParserManager.list_registered())
    assert next(iter(named), None) == parser


@pytest.mark.parametrize(
    ("model_type", "vocabulary", "template", "parser"),
    [
        ("qwen3", THINK, "", "qwen3"),
        ("qwen3", (), "", None),
        ("qwen2", THINK, "", "deepseek_r1"),
        ("llama", MISTRAL, "", "mistral"),
        ("llama", ("<think>",), "", None),
        ("cohere2", ("<|START_THINKING|>", "<|END_THINKING|>"), "", "cohere_command3"),
        ("cohere2", (), "", None),
        (
            "granite",
            (),
            "{% if thinking %}Write your thoughts after 'Here is my thought process:'",
            "granite",
        ),
        ("granite", (), "{{ messages }}", None),
        ("olmo3", PIECES, "<think>", "olmo3"),
        ("olmo3", PIECES, "", None),
        ("kimi_vl", (), "◁think▷", None),
        ("any", ("<mm:think>", "</mm:think>"), "", "minimax_m3"),
    ],
)
def test_a_parser_is_taken_if_the_model_knows_its_marks(
    model_type: str, vocabulary: tuple[str, ...], template: str, parser: str | None, caplog: Any
):
    model: Any = SimpleNamespace(hf_config=SimpleNamespace(model_type=model_type))
    reader = open_reader("auto", model, tokenizer_with(*vocabulary), chat_template=template)

    assert (reader.name if reader else None) == parser
    assert open_reader("none", model, tokenizer_with(*vocabulary), chat_template=template) is None
    assert ("vLLM has no parser for '◁think▷'" in caplog.text) == (model_type == "kimi_vl")


def test_an_unknown_parser_is_refused_with_the_known_ones():
    with pytest.raises(SettingsError, match=r"is 'qwen9', but vLLM has .*qwen3.*`none`"):
        ReasoningReader("qwen9", tokenizer_with(*THINK))


def test_a_parser_that_does_not_fit_the_tokenizer_is_refused():
    with pytest.raises(SettingsError, match="does not fit the tokenizer"):
        ReasoningReader("deepseek_r1", tokenizer_with())
