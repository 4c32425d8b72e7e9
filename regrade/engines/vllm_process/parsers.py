"""Worker side: separate the reasoning of answers, and their calls of tools, from the text, by vLLM's own parsers.

Parsers and the models they are for: https://docs.vllm.ai/en/latest/features/reasoning_outputs.html and
https://docs.vllm.ai/en/latest/features/tool_calling.html
"""

import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from regrade.engines.base import before_stop
from regrade.engines.vllm_process.labels import Tokens
from regrade.records.tools import MOST_CALLS, calls_text
from regrade.settings.errors import SettingsError
from regrade.text.text import common_length

if TYPE_CHECKING:
    from regrade.engines.vllm_process.internals import (
        ModelConfig,
        ReasoningParser,
        TokenizerLike,
        ToolParser,
    )

logger = logging.getLogger("regrade.engine")

HARMONY = "openai_gptoss"
"""Parser of gpt-oss, whose channels can be read only from tokens: https://cookbook.openai.com/articles/openai-harmony."""
_USUAL = ("<think>", "</think>")
"""Texts that begin and end a thought of models whose parser does not name them, such as Hunyuan's."""
_ANSWERING = ("final", "commentary")
"""Channels of an answer, whose names are text."""
_ALWAYS_REASONS = "deepseek_r1"
"""Parser of models whose type is also that of others: R1 and V3 are both `deepseek_v3`. With reasoning switched on, vLLM's
`deepseek_v3` reads as this one does."""
_KIMI_VL = "◁think▷"
_OF_AN_ANSWER = frozenset({"text", "finish_reason", "token_ids", "reasoning", "reasoning_open"})
_MARK = re.compile("think|reason|channel", re.IGNORECASE)
"""Part of all tokens that begin or end a thought."""


def parsers_by_name(model_type: str, registered: Sequence[str]) -> list[str]:
    """Return those of vLLM's parsers that are named after a type of models, the most alike first.

    They are if the first words of both names are equal, or one is the beginning of the other (`glm4_moe`, `glm45`).

    Args:
        model_type: `model_type` in the model's configuration.
        registered: Names of all parsers.
    """
    if model_type == "deepseek_v3":
        return [_ALWAYS_REASONS]
    family, whole = _plain(model_type.partition("_")[0]), _plain(model_type)

    def is_named(name: str) -> bool:
        if name == HARMONY:
            return model_type == "gpt_oss"  # other models are GPTs, too
        first = _plain(name.partition("_")[0])
        return first.startswith(family) or family.startswith(first)

    return sorted(
        filter(is_named, registered), key=lambda name: (-common_length(_plain(name), whole), name)
    )


def _plain(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())


def open_reader(
    setting: str,
    model: "ModelConfig",
    tokenizer: "TokenizerLike",
    *,
    chat_template: str | None = None,
) -> "ReasoningReader | None":
    """Return the reader of reasoning that the setting names or that fits the model; None if there is none.

    Args:
        setting: vLLM's name of a parser, `auto` or `none`.
        model: The model's configuration.
        tokenizer: Its tokenizer.
        chat_template: Text of its chat template, if it has one.

    Raises:
        SettingsError: If the named one cannot be used.
    """
    if setting != "auto":
        return None if setting == "none" else ReasoningReader(setting, tokenizer)
    from regrade.engines.vllm_process.internals import ReasoningParserManager

    vocabulary = tokenizer.get_vocab()
    registered = ReasoningParserManager.list_registered()
    for name in parsers_by_name(model.hf_config.model_type, registered):
        reader = _opened(name, tokenizer)
        if reader is not None and reader.is_for(vocabulary, chat_template or ""):
            return reader
    for name in registered if any(map(_MARK.search, vocabulary)) else ():
        reader = _opened(name, tokenizer)
        if reader is not None and {reader.start, reader.end} <= vocabulary.keys():
            return reader
    if chat_template is not None and _KIMI_VL in chat_template:
        logger.warning(
            "the reasoning is not separated from the answer: vLLM has no parser for '%s'", _KIMI_VL
        )
    return None


def _opened(name: str, tokenizer: "TokenizerLike") -> "ReasoningReader | None":
    """Return a reader, or None if vLLM's parser does not fit the tokenizer."""
    try:
        return ReasoningReader(name, tokenizer)
    except SettingsError:
        return None


@dataclass(frozen=True, slots=True)
class UnreadAnswer:
    """Parts of an answer that a `ReasoningReader` needs besides its text."""

    stop: tuple[str, ...]
    """Texts that end the answer after its reasoning."""
    token_ids: Sequence[int]


class _HarmonyParser(Protocol):
    def parse(
        self, model_output: str, request: object, *, model_output_token_ids: Sequence[int]
    ) -> tuple[str | None, str | None, object]: ...


def check_parser(setting: str, name: str, known: Collection[str], others: str) -> None:
    """Raise `SettingsError` if vLLM has no parser of this name; names its own, and `others`."""
    if name not in known:
        raise SettingsError(
            f"engine.{setting} is '{name}', but vLLM has {', '.join(sorted(known))}. Use one of them, {others}."
        )


@contextmanager
def fitting(setting: str, name: str) -> Iterator[None]:
    """Raise `SettingsError` if the block, which opens a parser of vLLM, fails because the tokenizer is not of its kind."""
    try:
        yield
    except (RuntimeError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise SettingsError(
            f"vLLM's {setting.replace('_', ' ')} '{name}' does not fit the tokenizer of this model ({error}). Choose another one "
            f"with engine.{setting}, or `none`."
        ) from error


def unreadable(completion: Mapping[str, Any], parser: str, error: Exception) -> dict[str, Any]:
    """Return the completion of an answer that a parser of vLLM cannot read, without the fields of an answer."""
    kept = {name: value for name, value in completion.items() if name not in _OF_AN_ANSWER}
    return kept | {
        "error": f"vLLM's {parser} cannot read the answer: {error!r}",
        "error_permanent": True,  # the same seed would generate it again
    }


class ReasoningReader:
    """Reads chat answers of one model: reasoning, and the text after it."""

    start: str | None = None
    """Text that begins a thought; None for channels."""
    end: str | None = None
    keeps_special_tokens: bool = False
    """Without special tokens, the text does not show where the reasoning ends."""

    def __init__(self, name: str, tokenizer: "TokenizerLike") -> None:
        """Open vLLM's parser.

        Args:
            name: vLLM's name of the parser.
            tokenizer: The model's tokenizer.

        Raises:
            SettingsError: If vLLM has no such parser, or it does not fit the tokenizer.
        """
        from regrade.engines.vllm_process.internals import ParserManager, ReasoningParserManager

        self.name = name
        self._harmony: _HarmonyParser | None = None
        check_parser(
            "reasoning_parser", name, ReasoningParserManager.list_registered(), "`auto` or `none`"
        )
        if name == HARMONY:
            harmony: Any = ParserManager.get_parser(reasoning_parser_name=name, is_harmony=True)
            self._harmony = harmony(tokenizer)
            return
        parser = ReasoningParserManager.get_reasoning_parser(name)
        with fitting("reasoning_parser", name):
            # `_has_reasoning` finds answers without reasoning, prompt by prompt.
            switched_on = {"enable_thinking": True, "thinking": True}
            self._parser: ReasoningParser = parser(tokenizer, chat_template_kwargs=switched_on)
        self.start = self._parser.reasoning_start_str
        self.end = self._parser.reasoning_end_str
        self.keeps_special_tokens = any(
            _is_special(tag, tokenizer) for tag in (self.start, self.end) if tag
        )

    def is_for(self, vocabulary: Collection[str], chat_template: str) -> bool:
        """Return True if a model knows the marks: as tokens, or as plain text of its template, such as Olmo 3's.

        Args:
            vocabulary: Its tokens.
            chat_template: Text of its template, if it has one.
        """
        if self.name == HARMONY:
            return True
        if self.start is None:  # words that only the parser knows, such as Granite's
            return _MARK.search(chat_template) is not None
        return self.start in vocabulary or self.start in chat_template

    def read(self, completion: dict[str, Any]) -> dict[str, Any]:
        """Return a completion with text and reasoning separated. The text is empty if the reasoning never ended.

        Args:
            completion: Fields of a `Completion`, and an `UnreadAnswer` as `unread`.
        """
        unread: UnreadAnswer = completion["unread"]
        read = {name: value for name, value in completion.items() if name != "unread"}
        try:
            reasoning, text, is_open = self._split(completion, unread)
        except Exception as error:  # noqa: BLE001 - vLLM's parsers raise anything; one answer must not end the others
            return unreadable(read, f"reasoning parser '{self.name}'", error)
        cut = before_stop(text, unread.stop, after_reasoning=reasoning is not None)
        read |= {"text": cut, "reasoning_open": is_open}
        if cut != text:
            read["finish_reason"] = "stop"
        if reasoning is not None:
            read["reasoning"] = reasoning
        return read

    def _split(
        self, completion: Mapping[str, Any], unread: UnreadAnswer
    ) -> tuple[str | None, str, bool]:
        """Return the reasoning, the text after it, and True if the reasoning never ended."""
        text: str = completion["text"]
        if self._harmony is not None:
            reasoning, content, _ = self._harmony.parse(
                text, None, model_output_token_ids=unread.token_ids
            )
            if reasoning is None and not any(channel in text for channel in _ANSWERING):
                return None, text, False  # no channels; the parser would lose the first words
            return reasoning, content or "", content is None and reasoning is not None
        if not self._has_reasoning(completion["prompt"], text):
            return None, text, False
        no_request: Any = None
        # Some parsers do not know that the prompt may have opened the thought.
        opened = text if self.start is None or self.start in text else self.start + text
        reasoning, content = self._parser.extract_reasoning(opened, no_request)
        if reasoning is not None and self.start is not None:
            reasoning = reasoning.removeprefix(self.start)  # some parsers leave the mark
        if self.end is not None and self.end not in text:
            return reasoning or text, "", True
        start, end = _USUAL
        if self.end is None and text.lstrip().startswith(start) and end not in text:
            return text.lstrip().removeprefix(start), "", True  # the parser takes it as answer
        return reasoning, content or "", False

    def _has_reasoning(self, prompt: str, text: str) -> bool:
        """Return True if an answer begins with reasoning. vLLM's parsers take any answer for reasoning."""
        if self.start is None or self.end is None:
            return True
        before, answer = prompt.rstrip(), text.lstrip()
        if before.endswith(self.end):
            return False  # the template skips it
        opened = before.endswith(self.start) or answer.startswith(self.start)
        return opened or (self.end in answer and self.start not in answer)


def _is_special(tag: str, tokenizer: "TokenizerLike") -> bool:
    ids: Tokens = tokenizer.encode(tag, add_special_tokens=False)
    return tag not in tokenizer.decode(ids, skip_special_tokens=True)


class CallReader:
    """Reads the calls in answers of one model."""

    def __init__(self, name: str, tokenizer: "TokenizerLike") -> None:
        """Open vLLM's parser.

        Args:
            name: vLLM's name of the parser.
            tokenizer: The model's tokenizer.

        Raises:
            SettingsError: If vLLM has no such parser, or it does not fit the tokenizer.
        """
        from regrade.engines.vllm_process.internals import ToolParserManager

        check_parser("tool_parser", name, ToolParserManager.list_registered(), "or `none`")
        self.name = name
        self._parser: type[ToolParser] = ToolParserManager.get_tool_parser(name)
        self._tokenizer = tokenizer
        with fitting("tool_parser", name):
            self._parser(tokenizer)

    def read(
        self, completion: dict[str, Any], tools: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Return a completion with its calls, and the text that remains beside them.

        Args:
            completion: Fields of a `Completion`, whose reasoning is separated already.
            tools: Functions of the request.
        """
        if "error" in completion:
            return completion
        try:
            text, calls = self._split(completion["text"], tools)
        except Exception as error:  # noqa: BLE001 - vLLM's parsers raise anything; one answer must not end the others
            return unreadable(completion, f"tool parser '{self.name}'", error)
        return completion | {"text": text, "tool_calls": calls_text(calls)}

    def _split(
        self, text: str, tools: Sequence[Mapping[str, Any]]
    ) -> tuple[str, list[tuple[str, str]]]:
        """Return the text beside the calls, and the name and arguments of each call."""
        from regrade.engines.vllm_process.internals import ChatCompletionRequest

        request = ChatCompletionRequest.model_validate(
            {"messages": [], "tools": list(tools), "tool_choice": "auto"}
        )
        offered: Any = request.tools
        # A new one for each answer: parsers keep what they have read.
        found = self._parser(self._tokenizer, offered).extract_tool_calls(text, request)
        calls = [(call.function.name, call.function.arguments) for call in found.tool_calls]
        if len(calls) > MOST_CALLS:
            raise ValueError(f"{len(calls):,} calls; at most {MOST_CALLS:,} are read")
        return found.content or "", calls
