"""Tools in real vLLM: the chat template writes them, and vLLM's parser reads the calls."""

import json
from pathlib import Path

import pytest

from regrade.engines.vllm import VllmEngine
from regrade.engines.vllm_process.parsers import CallReader
from regrade.models.base import ResolvedModel
from regrade.records import Completion, Request, Structure
from regrade.settings import SamplingParams
from regrade.settings.errors import SettingsError
from tests.engines.vllm_process.asking import ask, opened

pytestmark = pytest.mark.vllm
TEMPLATE = (
    "{% if tools %}Tools: {{ tools | tojson }}\n{% endif %}"
    "{% for turn in messages %}{{ turn.role }}: {{ turn.content }}\n{% endfor %}assistant:"
)
TOOL = {
    "type": "function",
    "function": {"name": "play", "parameters": {"type": "object", "properties": {}}},
}
CALL = '<tool_call>{"name": "play", "arguments": {"artist": "Abba"}}</tool_call>'


def asked(key: int, only: str, *, tools: bool = True) -> Request:
    """A request that can be answered in one way only."""
    return Request(
        key,
        ({"role": "user", "content": "Play Abba."},),
        SamplingParams(temperature=0.0, max_tokens=80),
        structure=Structure({}, choice=(only,)),
        tools=(TOOL,) if tools else (),
    )


def answers(
    settings: VllmEngine, model: ResolvedModel, template: str, requests: list[Request], log: Path
) -> list[Completion]:
    with opened(model, log, settings, requests, chat_template=template) as engine:
        return ask(engine, requests)


def test_calls_are_read_by_vllms_parser_and_the_prompt_has_the_tools(
    resolved_model: ResolvedModel, tmp_path: Path
) -> None:
    settings = VllmEngine(enforce_eager=True, max_model_len=512, tool_parser="hermes")
    requests = [asked(0, f"Yes. {CALL}"), asked(1, "Yes."), asked(2, "Yes.", tools=False)]

    called, silent, without = answers(
        settings, resolved_model, TEMPLATE, requests, tmp_path / "log"
    )

    assert '"name": "play"' in called.prompt
    assert json.loads(called.tool_calls or "") == [
        {"name": "play", "arguments": {"artist": "Abba"}}
    ]
    assert (called.text or "").strip() == "Yes."
    assert (silent.text, silent.tool_calls) == ("Yes.", "[]")
    assert (without.text, without.tool_calls) == ("Yes.", None)
    assert "play" not in without.prompt.replace("Play", "")


def test_tools_are_checked_before_the_weights_are_read(
    resolved_model: ResolvedModel, tmp_path: Path
) -> None:
    settings = VllmEngine(enforce_eager=True, max_model_len=512, tool_parser="hermes")
    template = "{% for turn in messages %}{{ turn.content }}{% endfor %}"
    with pytest.raises(SettingsError, match="writes none"):
        answers(settings, resolved_model, template, [asked(0, "Yes.")], tmp_path / "log")
    assert "Starting to load model" not in (tmp_path / "log").read_text()


@pytest.mark.filterwarnings("ignore")  # importing vLLM warns
def test_a_parser_that_vllm_does_not_have_is_refused_with_those_that_it_has() -> None:
    with pytest.raises(SettingsError, match=r"is 'hermez', but vLLM has .*hermes.*`none`"):
        CallReader("hermez", None)  # type: ignore[arg-type]  # refused before the tokenizer is looked at
