"""Worker side: chats as the model's own tokens, from its Jinja template or from vLLM's code for models without one."""

import faulthandler
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

import jinja2

from regrade.engines.vllm_process.labels import Tokens
from regrade.models.chat_template import lengths_of
from regrade.settings.errors import SettingsError

if TYPE_CHECKING:
    from regrade.engines.vllm_process.internals import BaseRenderer, ModelConfig, TokenizerLike

Messages = Sequence[Mapping[str, Any]]
"""The content of a message is a text, or a list of parts for a template that expects one."""
_ENDING = 32
"""Characters at the end of a prompt that determine the white space after it."""
_SECONDS = 120.0
"""Longest time in which a template writes the prompts of one message of the owner; usual ones need a second for thousands."""
_LONGER, _LONGEST = 8, 1 << 20
"""Longest prompt that a template may make, in characters: so many for each of the messages, and so many more."""


@dataclass(frozen=True, slots=True)
class TemplateVariables:
    """Values that a chat template reads, besides the messages."""

    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the template, such as `enable_thinking`."""
    day: date | None = None
    """Day that the template prints as today; None: the real one."""


@dataclass(frozen=True, slots=True)
class RenderedChat:
    """A rendered chat up to the model's answer; `error` is set if the template rejects it."""

    text: str
    ids: Tokens
    error: str | None = None


def open_chat(
    model: "ModelConfig", tokenizer: "TokenizerLike", *, chat_template: str | None
) -> "Chat | None":
    """Return the renderer of a model's chats; None if the model has no chats.

    Args:
        model: The model's configuration.
        tokenizer: Its tokenizer.
        chat_template: Text of a Jinja template to use instead of the model's.

    Raises:
        SettingsError: If a template is given for a model whose chats vLLM renders in code.
    """
    from regrade.engines.vllm_process import internals

    mode = internals.tokenizer_args_from_config(model)[0]
    if mode != "hf":
        if chat_template is not None:
            raise SettingsError(
                f"vLLM renders the chats of this model in code (tokenizer mode '{mode}'), so that `prompt.chat_template` "
                "would have no effect. Leave it out, or set `engine.extra=tokenizer_mode=hf`."
            )
        renderer = internals.renderer_from_config(internals.VllmConfig(model_config=model))
        return CodeChat(renderer, tokenizer)
    hf: Any = tokenizer
    template = internals.resolve_chat_template(hf, chat_template, None, model_config=model)
    if template is None:
        return None
    parts = internals.resolve_chat_template_content_format(
        template, None, "auto", hf, model_config=model
    )
    name = (
        "The chat template" if chat_template is None else "The chat template `prompt.chat_template`"
    )
    return TemplateChat(tokenizer, template, content_parts=parts == "openai", name=name)


class TemplateChat:
    """Chats by a Jinja template."""

    def __init__(
        self,
        tokenizer: Any,  # noqa: ANN401 - any tokenizer of transformers
        template: str,
        *,
        content_parts: bool = False,
        name: str = "The chat template",
    ) -> None:
        """Prepare the template.

        Args:
            tokenizer: The model's tokenizer.
            template: Text of the template.
            content_parts: The template expects the content of a message as a list of parts.
            name: Name of the template in messages.
        """
        self._tokenizer, self._name = tokenizer, name
        self.template = template
        self.content_parts = content_parts
        self._spaces: dict[str, str] = {}
        # A tokenizer that overrides the method may return other tokens than those of its text.
        own = inspect.unwrap(type(tokenizer).apply_chat_template)
        self._from_text = own.__module__ == "transformers.tokenization_utils_base"

    def render(self, chats: Sequence[Messages], variables: TemplateVariables) -> list[RenderedChat]:
        """Return the chats, each rendered up to the model's answer, in the same order."""
        openings = [_opening(messages) for messages in chats]
        written = self._written(chats, variables, openings)
        if self._from_text:  # like `apply_chat_template(tokenize=True)`, for all chats at once
            ids = self._tokenize([text for text, _ in written])
        else:
            with _in_time():
                ids = [
                    [] if error else self._apply(messages, variables, tokenize=True, **opening)
                    for messages, (_, error), opening in zip(chats, written, openings, strict=True)
                ]
        return [
            RenderedChat(text, tokens, error)
            for (text, error), tokens in zip(written, ids, strict=True)
        ]

    def _written(
        self,
        chats: Sequence[Messages],
        variables: TemplateVariables,
        openings: Sequence[Mapping[str, bool]],
    ) -> list[tuple[str, str | None]]:
        """Return the text of each chat, or why there is none: the template is the work of strangers.

        A child process with limits writes them first, and tells their lengths.

        Args:
            chats: The chats.
            variables: Other variables of the template.
            openings: How the model's turn begins in each.
        """
        special = self._tokenizer.special_tokens_map
        values = [
            {**special, "messages": self._conversation(messages), **variables.arguments, **opening}
            for messages, opening in zip(chats, openings, strict=True)
        ]
        lengths = lengths_of(self.template, values)
        with _in_time():
            return [
                self._text(messages, variables, length, opening)
                for messages, length, opening in zip(chats, lengths, openings, strict=True)
            ]

    def _text(
        self,
        messages: Messages,
        variables: TemplateVariables,
        length: int,
        opening: Mapping[str, bool],
    ) -> tuple[str, str | None]:
        given = sum(len(str(message["content"])) for message in messages)
        if length > _LONGER * given + _LONGEST:
            return "", f"{self._name} makes {length:,} characters of {given:,}"
        try:
            text = str(self._apply(messages, variables, tokenize=False, **opening))
        except jinja2.TemplateError as error:
            return "", f"{self._name} rejects the messages: {error}"
        except Exception as error:  # noqa: BLE001 - a template can raise whatever Python can
            return "", f"{self._name} fails for the messages: {type(error).__name__}: {error}"
        return text, None

    def answered(
        self,
        messages: Messages,
        rendered: RenderedChat,
        answers: Sequence[str],
        variables: TemplateVariables,
    ) -> list[Tokens]:
        """Return the tokens of a chat with each of these answers as the beginning of the model's turn."""
        ending = rendered.text[-_ENDING:]
        if ending not in self._spaces:
            self._spaces[ending] = self._space_before(answers[0], messages, rendered, variables)
        space = self._spaces[ending]
        return self._tokenize([rendered.text + space + answer for answer in answers])

    def _space_before(
        self, answer: str, messages: Messages, rendered: RenderedChat, variables: TemplateVariables
    ) -> str:
        """Return the white space that the template writes before an answer of the model, often none."""
        turns = [*messages, {"role": "assistant", "content": answer}]
        ((text, _),) = self._written([turns], variables, [{"add_generation_prompt": False}])
        if not text.startswith(rendered.text):
            return ""  # the template writes earlier turns differently from the last one
        before, found, _ = text[len(rendered.text) :].partition(answer)
        return before if found and not before.strip() else ""

    def _conversation(self, messages: Messages) -> list[dict[str, Any]]:
        conversation: list[dict[str, Any]] = [dict(message) for message in messages]
        if self.content_parts:
            for message in conversation:
                if isinstance(message["content"], str):
                    message["content"] = [{"type": "text", "text": message["content"]}]
        return conversation

    def _apply(self, messages: Messages, variables: TemplateVariables, **options: object) -> Any:  # noqa: ANN401 - text or tokens
        day = variables.day
        pinned: dict[str, Any] = {} if day is None else {"strftime_now": day.strftime}
        return self._tokenizer.apply_chat_template(
            self._conversation(messages),
            chat_template=self.template,
            return_dict=False,
            **{**pinned, **variables.arguments, **options},
        )

    def _tokenize(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the tokens of rendered texts: a template writes the special tokens itself."""
        if not texts:
            return []
        return list(self._tokenizer(list(texts), add_special_tokens=False)["input_ids"])


@contextmanager
def _in_time() -> Iterator[None]:
    """End this process, and say so in its log, if the block takes longer than `_SECONDS`, whatever it computes."""
    faulthandler.dump_traceback_later(_SECONDS, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


class CodeChat:
    """Chats by vLLM's renderer in code, such as for Mistral's tokenizers and DeepSeek-V3.2; no renderer prints the day."""

    template = None

    def __init__(self, renderer: "BaseRenderer", tokenizer: "TokenizerLike") -> None:
        self._renderer, self._tokenizer = renderer, tokenizer

    def render(self, chats: Sequence[Messages], variables: TemplateVariables) -> list[RenderedChat]:
        """Return the chats, each rendered up to the model's answer, in the same order."""
        rendered = []
        for messages in chats:
            try:
                ids = self._ids(messages, variables, **_opening(messages))
            except ValueError as error:
                rejected = f"vLLM's renderer rejects the messages: {error}"
                rendered.append(RenderedChat("", [], rejected))
            else:
                rendered.append(RenderedChat(self._text(ids), ids))
        return rendered

    def answered(
        self,
        messages: Messages,
        rendered: RenderedChat,  # noqa: ARG002 - the renderer writes it again
        answers: Sequence[str],
        variables: TemplateVariables,
    ) -> list[Tokens]:
        """Return the tokens of a chat with each of these answers as the beginning of the model's turn."""
        options = {"continue_final_message": True, "add_generation_prompt": False}
        end = self._tokenizer.eos_token_id
        sequences = []
        for answer in answers:
            turns = [*messages, {"role": "assistant", "content": answer}]
            ids = self._ids(turns, variables, **options)
            sequences.append(ids[:-1] if ids[-1] == end else ids)
        return sequences

    def _text(self, ids: Tokens) -> str:
        """Return the text of tokens.

        Special tokens are decoded separately, because SentencePiece shows its marks beside them.
        """
        special = set(self._tokenizer.all_special_ids)
        return "".join(
            self._tokenizer.decode([*run], skip_special_tokens=not is_special)
            for is_special, run in groupby(ids, key=special.__contains__)
        )

    def _ids(self, messages: Messages, variables: TemplateVariables, **options: object) -> Tokens:
        from regrade.engines.vllm_process.internals import ChatParams

        conversation: Any = [dict(message) for message in messages]
        arguments = {**variables.arguments, "tokenize": True, **options}
        prompt: Any
        _, prompt = self._renderer.render_messages(
            conversation, ChatParams(chat_template_kwargs=arguments)
        )
        if "prompt_token_ids" in prompt:
            return list(prompt["prompt_token_ids"])
        return list(self._tokenizer.encode(prompt["prompt"], add_special_tokens=False))


Chat: TypeAlias = TemplateChat | CodeChat
"""Renders chats of a model and tokenises them."""


def _opening(messages: Messages) -> dict[str, bool]:
    """Return the options to open the model's turn, or to continue it if the last message is its beginning."""
    if messages and messages[-1]["role"] == "assistant":
        return {"add_generation_prompt": False, "continue_final_message": True}
    return {"add_generation_prompt": True}
