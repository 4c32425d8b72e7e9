"""Worker side: separate the calls of tools from the rest of an answer, by vLLM's own parsers.

Parsers and the models they are for: https://docs.vllm.ai/en/latest/features/tool_calling.html
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from regrade.engines.vllm_process.reasoning import check_parser, fitting
from regrade.records.tools import MOST_CALLS, calls_text

if TYPE_CHECKING:
    from regrade.engines.vllm_process.internals import TokenizerLike, ToolParser

Tools = Sequence[Mapping[str, Any]]
_FAILED = frozenset({"text", "finish_reason", "token_ids", "reasoning", "reasoning_open"})
"""Fields that a failed answer does not have."""


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

    def read(self, completion: dict[str, Any], tools: Tools) -> dict[str, Any]:
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
            kept = {name: value for name, value in completion.items() if name not in _FAILED}
            return kept | {
                "error": f"vLLM's tool parser '{self.name}' cannot read the answer: {error!r}",
                "error_permanent": True,  # the same seed would generate it again
            }
        return completion | {"text": text, "tool_calls": calls_text(calls)}

    def _split(self, text: str, tools: Tools) -> tuple[str, list[tuple[str, str]]]:
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
