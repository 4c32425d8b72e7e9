"""Worker side: images of requests, as vLLM's multimodal inputs, and the tokens that the model's processor makes of them."""

import base64
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regrade.engines.vllm_process.chat import Chat, Messages, TemplateChat
from regrade.engines.vllm_process.forked import message_of
from regrade.engines.vllm_process.labels import Tokens
from regrade.records.images import mark_of
from regrade.records.messages import parts_of
from regrade.settings.errors import SettingsError

if TYPE_CHECKING:
    from regrade.engines.vllm_process.internals import ModelConfig, TokenizerLike

UNPLANNED = "The engine was started for requests without images."
_CHANGE_WHAT_IS_SEEN = ("interleave_mm_strings", "media_io_kwargs", "mm_encoder_attn_dtype")
"""Engine arguments that are not part of an answer set's id, since they change nothing about texts."""


@dataclass(frozen=True, slots=True)
class ShownChat:
    """Chat in the form in which the model's template reads it."""

    messages: Messages
    shown: tuple[str, ...]
    """sha256 of each image, in the order in which they stand in the chat; an image that is shown twice is there twice."""
    error: str | None = None
    """Reason why the model does not get it; the messages are as they were."""


class Pictures:
    """Images of the requests to one model."""

    def __init__(
        self, model: "ModelConfig", tokenizer: "TokenizerLike", *, content_parts: bool
    ) -> None:
        """Open the model's processor.

        Args:
            model: Configuration of a model that takes images.
            tokenizer: Its tokenizer; no other thread uses it.
            content_parts: The chat template expects the content of a message as a list of parts.

        Raises:
            SettingsError: If the processor cannot be opened, or takes no images.
        """
        from regrade.engines.vllm_process.internals import seeing_names

        self._model, self._content_parts = model, content_parts
        self._vllm = seeing_names()
        try:
            self._processor = self._vllm.MULTIMODAL_REGISTRY.create_processor(
                model, tokenizer=tokenizer
            )
            limits = self._processor.info.allowed_mm_limits
        except Exception as error:  # files of strangers, read by transformers: any kind can come
            raise SettingsError(
                f"The image processor of '{model.model}' cannot be opened: {message_of(error)}"
            ) from error
        if not limits.get("image"):
            raise SettingsError(_takes_none(model))
        self._class = self._vllm.get_model_cls(model)
        self.most = limits["image"]
        """Most images of a prompt."""
        self._other_kinds = dict.fromkeys(limits, 0)
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the worker runs
        self._places: dict[str, tuple[int, int]] = {}

    def close(self) -> None:
        """Delete the files of images."""
        self._file.close()

    def keep(self, images: Mapping[str, str]) -> None:
        """Keep files of images: their bytes in base64, by sha256."""
        for sha256, content in images.items():
            data = base64.b64decode(content)
            begin = self._file.seek(0, os.SEEK_END)
            self._file.write(data)
            self._file.flush()
            self._places[sha256] = (begin, len(data))

    def limits(self, count: int) -> dict[str, int]:
        """Return vLLM's `limit_mm_per_prompt` for prompts with at most `count` images, and nothing else to see or hear.

        Raises:
            SettingsError: If the model takes fewer.
        """
        if count > self.most:
            raise SettingsError(
                f"A question shows {count} images, but '{self._model.model}' takes at most {self.most} in a prompt. Choose another model, or a part of the "
                "questions."
            )
        return {**self._other_kinds, "image": count}

    def shown(self, messages: Messages, images: Sequence[str]) -> ShownChat:
        """Return a chat with images in place of their marks, as vLLM's server passes it to the template.

        Args:
            messages: Texts with marks.
            images: sha256 of the images whose marks they may hold.
        """
        from PIL.Image import new

        from regrade.engines.vllm_process.internals import VLLMValidationError

        stand_in = new("RGB", (1, 1))  # the template does not look at them
        shown: list[str] = []
        turns: list[Any] = []
        for message in messages:
            parts: list[dict[str, Any]] = []
            for part in parts_of(message["content"], images):
                if part.sha256 is None:
                    parts.append({"type": "text", "text": part.text})
                else:
                    shown.append(part.sha256)
                    parts.append({"type": "image_pil", "image_pil": stand_in})
            turns.append({**message, "content": parts})
        if len(shown) > self.most:
            error = f"The prompt shows {len(shown)} images; the model takes at most {self.most}."
            return ShownChat(messages, tuple(shown), error)
        try:
            conversation, _, _ = self._vllm.parse_chat_messages(
                turns, self._model, "openai" if self._content_parts else "string"
            )
        except VLLMValidationError as rejected:
            error = f"vLLM rejects the messages: {message_of(rejected)}"
            return ShownChat(messages, tuple(shown), error)
        return ShownChat([dict(turn) for turn in conversation], tuple(shown))

    def with_marks(self, text: str, shown: Sequence[str]) -> str:
        """Return the text of a chat with marks where the template wrote the model's placeholders of images.

        Marks of images that have no such place stand before the text.
        """
        begin, left = 0, list[str]()
        for number, sha256 in enumerate(shown, 1):
            mark = mark_of(sha256)
            placeholder = self._class.get_placeholder_str("image", number)
            place = text.find(placeholder, begin) if placeholder else -1
            if place < 0:
                left.append(mark)
                continue
            text = text[:place] + mark + text[place + len(placeholder) :]
            begin = place + len(mark)
        return "".join(left) + text

    def tokens(self, ids: Tokens, shown: Sequence[str]) -> int:
        """Return how many tokens a prompt has with its images.

        Raises:
            ValueError: As `processed`.
        """
        return len(self.processed(ids, shown)["prompt_token_ids"])

    def processed(self, ids: Tokens, shown: Sequence[str]) -> Mapping[str, Any]:
        """Return what vLLM makes of a prompt: `prompt_token_ids` with a token for each part of an image, and the pixels (`mm_kwargs`).

        Raises:
            ValueError: If the processor rejects the images.
        """
        try:
            items = self._processor.info.parse_mm_data({"image": self._opened(shown)})
            inputs = self._vllm.ProcessorInputs([*ids], items, {"image": [*shown]})
            # One thread: the process is forked later, which the threads of OpenMP do not survive.
            with self._vllm.set_default_torch_num_threads(1):
                found: Mapping[str, Any] = self._processor.apply(
                    inputs, self._vllm.TimingContext(enabled=False)
                )
        except Exception as error:  # a processor can raise whatever Python can
            raise ValueError(
                f"The model's processor rejects the images: {message_of(error)}"
            ) from error
        return found

    def prompt(self, ids: Tokens, shown: Sequence[str]) -> dict[str, Any]:
        """Return vLLM's input for a prompt: its tokens with a placeholder for each image, and the images."""
        return {
            "prompt_token_ids": [*ids],
            "multi_modal_data": {"image": self._opened(shown)},
            "multi_modal_uuids": {"image": [*shown]},
        }

    def _opened(self, shown: Sequence[str]) -> list[Any]:
        """Return images as vLLM's server reads them: upright, in RGB, what is transparent on white."""
        reader = self._vllm.ImageMediaIO()
        descriptor = self._file.fileno()
        places = [self._places[sha256] for sha256 in shown]
        return [reader.load_bytes(os.pread(descriptor, size, begin)) for begin, size in places]


def open_pictures(
    model: "ModelConfig", tokenizer: "TokenizerLike", chat: Chat | None, extra: Mapping[str, Any]
) -> Pictures | None:
    """Return what shows images to a model; None if it has no chats, in which alone images can stand.

    Args:
        model: The model's configuration.
        tokenizer: Its tokenizer.
        chat: Renders its chats.
        extra: Further engine arguments of the user.

    Raises:
        SettingsError: If the model takes no images.
    """
    if chat is None:
        return None
    if given := [name for name in _CHANGE_WHAT_IS_SEEN if name in extra]:
        raise SettingsError(
            f"`engine.extra={given[0]}`: it would change what the model sees, but not the id of its answers. Leave it out where "
            "benchmarks show images."
        )
    if not model.supports_multimodal_inputs:
        raise SettingsError(_takes_none(model))
    if not isinstance(chat, TemplateChat):
        raise SettingsError(
            f"Benchmarks show images, but vLLM renders the chats of '{model.model}' in code, and regrade shows it none there. Serve it "
            "(`vllm serve`), and use `engine=openai`."
        )
    return Pictures(model, tokenizer, content_parts=chat.content_parts)


def _takes_none(model: "ModelConfig") -> str:
    return (
        f"Benchmarks show images, but '{model.model}' ({', '.join(model.architectures)}) takes none in vLLM with these settings. Choose a model that "
        "sees."
    )
