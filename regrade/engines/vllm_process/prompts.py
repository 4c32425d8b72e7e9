"""Worker side: render and tokenise requests in batches."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Any, Protocol

import jinja2

from regrade.engines.vllm_process.context import Need, too_long
from regrade.engines.vllm_process.labels import Choices, LabelTokens, Tokens

WireRequest = Mapping[str, Any]
"""A `Request` as JSON: `key`, `prompt` (text or list of messages), `sampling`, `labels`."""


class Tokenizer(Protocol):
    """The methods that are used of a tokenizer of transformers or vLLM."""

    def __call__(self, text: list[str], *, add_special_tokens: bool) -> Mapping[str, Any]:
        """Return `input_ids` for each text."""

    def decode(self, ids: list[int]) -> str:
        """Return the text of tokens."""

    def apply_chat_template(
        self, conversation: list[Mapping[str, str]], **arguments: object
    ) -> object:
        """Return the text of a chat; call it with `tokenize=False`."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A rendered and tokenised request; `error` is set if it cannot be answered."""

    key: int
    text: str
    sampling: Mapping[str, Any]
    ids: Tokens
    ranking: Tokens | Choices | None = None
    """Token of each label, or sequences to score separately. None if text is generated."""
    truncated: bool = False
    error: str | None = None
    error_permanent: bool = False
    """The request cannot be answered by this model with these prompts, whatever the engine's settings."""

    @property
    def need(self) -> Need:
        """Number of tokens that the request needs in the context."""
        if self.ranking is None:
            return Need(len(self.ids), int(self.sampling["max_tokens"]))
        if isinstance(self.ranking, Choices):
            longest = max(len(sequence) for sequence in self.ranking.sequences)
            return Need(len(self.ids), longest - len(self.ids) + 1)
        return Need(len(self.ids), 1)


class Prompts:
    """Renders and tokenises requests for one model."""

    def __init__(
        self, tokenizer: Tokenizer, *, chat_template: str | None, arguments: Mapping[str, Any]
    ) -> None:
        self._tokenizer = tokenizer
        self._chat_template = chat_template
        self._arguments = arguments
        self._labels = {chat: LabelTokens(self._tokenize(chat)) for chat in (False, True)}

    def prepare(self, requests: Sequence[WireRequest]) -> list[Prepared]:
        """Return the requests in the same order, with text and token ids; nothing is cut yet."""
        prepared: dict[int, Prepared] = {}
        for chat in (False, True):
            group = [r for r in requests if isinstance(r["prompt"], list) is chat]
            # Repeats of a question follow each other.
            runs = [[*run] for _, run in groupby(group, key=itemgetter("prompt"))]
            prompts = [run[0]["prompt"] for run in runs]
            texts = [self._render(p) if chat else (p, None) for p in prompts]
            ids = self._tokenize(chat)([text for text, _ in texts]) if texts else []
            expanded = (
                (request, text, error, tokens)
                for run, (text, error), tokens in zip(runs, texts, ids, strict=True)
                for request in run
            )
            for request, text, error, tokens in expanded:
                ranking = None
                if request["labels"] and error is None:
                    ranking = self._labels[chat].of(text, tokens, tuple(request["labels"]))
                prepared[request["key"]] = Prepared(
                    request["key"],
                    text,
                    request["sampling"],
                    tokens,
                    ranking,
                    error=error,
                    error_permanent=error is not None,
                )
        return [prepared[request["key"]] for request in requests]

    def fit(self, prepared: Prepared, context: int, *, limit: int, truncate: bool) -> Prepared:
        """Return the request if it fits into the context; otherwise cut from the left if allowed, or with an error.

        Args:
            prepared: Result of `prepare`.
            context: Context length in tokens.
            limit: Context length that the model allows; a larger `context` cannot help.
            truncate: The prompt may be cut.
        """
        need = prepared.need
        too_large = replace(
            prepared, error=too_long(need, context), error_permanent=context >= limit
        )
        surplus = need.prompt + need.new - context
        if prepared.error is not None or surplus <= 0:
            return prepared
        ranking = prepared.ranking
        shortest = 2 if isinstance(ranking, Choices) else 1
        if not truncate or need.prompt - surplus < shortest:
            return too_large
        if isinstance(ranking, Choices):
            if ranking.start - surplus < 1:
                return too_large
            ranking = Choices(
                tuple(sequence[surplus:] for sequence in ranking.sequences),
                ranking.start - surplus,
            )
        ids = prepared.ids[surplus:]
        return replace(
            prepared, ids=ids, text=self._tokenizer.decode(ids), ranking=ranking, truncated=True
        )

    def _render(self, messages: list[Mapping[str, str]]) -> tuple[str, str | None]:
        """Return the text of a chat and None, or "" and the error of the chat template."""
        try:
            text = self._tokenizer.apply_chat_template(
                messages,
                chat_template=self._chat_template,
                tokenize=False,
                add_generation_prompt=True,
                **self._arguments,
            )
        except jinja2.TemplateError as error:
            return "", f"The chat template rejects the messages: {error}"
        return str(text), None

    def _tokenize(self, chat: bool) -> Callable[[Sequence[str]], list[Tokens]]:
        # A chat template writes the special tokens itself.
        def tokenize(texts: Sequence[str]) -> list[Tokens]:
            encoded = self._tokenizer(list(texts), add_special_tokens=not chat)
            return list(encoded["input_ids"])

        return tokenize
