"""Messages of other tools' files as a prompt and a trajectory: OpenAI's form, and those of Inspect, verifiers and Anthropic."""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakValueDictionary

from regrade.exchange.importing.record import Json, Record, as_json
from regrade.records.characters import whole_characters
from regrade.records.images import Image, ImageError, mark_of, read_image
from regrade.records.messages import Part, PartedMessage
from regrade.records.trajectory import TrajectoryError, call_of, message_document

_DATA = re.compile(r"data:image/[a-z.+-]{1,20};base64,(?P<content>.*)", re.S)
_LONGEST_ADDRESS = 300
_LONGEST_ROLE = 40
Resolve = Callable[[str], str]
"""Replaces a reference in a text by the text that is meant."""
Files = Callable[[str], bytes | None]
"""Returns the content of the file at the address of an image; None if there is none beside the file to import."""


def no_files(address: str) -> None:
    """Return None: addresses of images name no files beside."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages of a run: those that the model was given, and all that came after."""

    prompt: str | None
    """Messages before the first that the model wrote, as JSON; None if there are none."""
    question: str | None
    """The user's message, if it is the only one beside system messages."""
    trajectory: tuple[PartedMessage, ...]
    text: str | None
    """Text of the last message that the model wrote, if it has one; None if it wrote none."""
    images: tuple[Image, ...] = ()
    """Images that the prompt shows, if the file has their bytes."""


def conversation(given: Sequence[PartedMessage], made: Sequence[PartedMessage]) -> Conversation:
    """Return the conversation of messages that the model was given, and those that came after."""
    asked = [message for message in given if message.role not in ("system", "developer")]
    is_single = len(asked) == 1 and asked[0].role == "user"
    written = [message for message in made if message.role == "assistant"]
    texts = [text for message in reversed(written) if (text := message.text).strip()]
    return Conversation(
        stored_prompt(given),
        asked[0].text if is_single else None,
        tuple(made),
        next(iter(texts), "") if written else None,
        shown_images(given),
    )


def shown_images(messages: Iterable[PartedMessage]) -> tuple[Image, ...]:
    """Return the images of messages, each once."""
    images = (part.image for message in messages for part in message.parts)
    return tuple({image.sha256: image for image in images if image is not None}.values())


def stored_prompt(messages: Sequence[PartedMessage]) -> str | None:
    """Return messages as a prompt is stored; None if there are none."""
    return as_json([*map(_stored, messages)]) if messages else None


def _stored(message: PartedMessage) -> dict[str, Any]:
    """Return a message of a prompt; with its parts if its text does not say all of them."""
    stored = {"role": message.role, "content": message.text}
    if all(part.kind in ("text", "image") for part in message.parts):
        return stored
    return stored | {"parts": message_document(message)["parts"]}


def split(messages: Sequence[PartedMessage], answers: int = 0) -> tuple[Any, Any]:
    """Return the messages before the first that the model wrote, and the others.

    Args:
        messages: All messages.
        answers: Messages of the assistant that the model was given.
    """
    places = [n for n, message in enumerate(messages) if message.role == "assistant"]
    begin = places[answers] if answers < len(places) else len(messages)
    return messages[:begin], messages[begin:]


def is_trajectory(messages: Sequence[PartedMessage]) -> bool:
    """Return True if messages are more than one answer with its thought."""
    kinds = {part.kind for message in messages for part in message.parts}
    return len(messages) > 1 or bool(kinds & {"tool_call", "tool_result"})


def read_messages(
    messages: Json, record: Record, resolve: Resolve = whole_characters, files: Files = no_files
) -> tuple[PartedMessage, ...]:
    """Return messages of a file.

    Args:
        messages: The list, or a text, which is one message of the user.
        record: Row that they are from, for errors.
        resolve: Replaces references in texts.
        files: Returns the contents of images in files of their own.

    Raises:
        ImportFileError: If they are no messages.
    """
    if isinstance(messages, str):
        return (PartedMessage("user", (Part("text", resolve(messages)),)),)
    if not isinstance(messages, list):
        raise record.error(f"a list of messages was expected, found {messages!r:.60}.")
    reader = _MessageReader(record, resolve, files)
    return tuple(reader.message(message) for message in messages)


class _MessageReader:
    def __init__(self, record: Record, resolve: Resolve, files: Files) -> None:
        self._record, self._resolve, self._files = record, resolve, files
        self._names: dict[str, str] = {}

    def message(self, message: Json) -> PartedMessage:
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(role, str):
            raise self._record.error(
                f"a message should be an object with 'role' and 'content', found {message!r:.60}."
            )
        thought = message.get("reasoning_content") or message.get("reasoning")
        parts = [Part("reasoning", self._resolve(thought))] if isinstance(thought, str) else []
        try:
            content = list(self._content(message.get("content")))
            calls = list(self._calls(message.get("tool_calls")))
        except TrajectoryError as error:
            raise self._record.error(f"{error}.") from error
        is_result = role in ("tool", "function")
        parts += self._result(message, content) if is_result else _on_lines(content)
        return PartedMessage(whole_characters(role)[:_LONGEST_ROLE], (*parts, *calls))

    def _result(self, message: dict[str, Any], content: list[Part]) -> list[Part]:
        """Return the parts of a result: its texts as one, then its images."""
        call = _name(message.get("tool_call_id"))
        name = _name(message.get("function")) or _name(message.get("name"))
        error = message.get("error")
        failed = error.get("message") if isinstance(error, dict) else error
        texts = [part.text for part in content if part.kind == "text"]
        if isinstance(failed, str) and (reason := whole_characters(failed)) not in texts:
            texts.append(reason)
        others = [part for part in content if part.kind != "text"]
        text = "\n".join(text for text in texts if text)
        named = name or self._names.get(call or "")
        return [Part("tool_result", text, call, named, is_error=bool(error)), *others]

    def _content(self, content: Json) -> Iterator[Part]:
        if content is None:
            return
        if isinstance(content, str):
            yield from [Part("text", self._resolve(content))] if content else []
            return
        if isinstance(content, dict):
            content = [content]
        if not isinstance(content, list):
            raise self._record.error(
                f"the content of a message should be a text or a list of parts, found {content!r:.60}."
            )
        for part in content:
            yield from self._part(part)

    def _part(self, part: Json) -> Iterator[Part]:
        if isinstance(part, str):
            yield Part("text", self._resolve(part))
            return
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(part, dict) or not isinstance(kind, str):
            raise self._record.error(
                f"a part of a message should have a 'type', found {part!r:.60}."
            )
        address = _address(part)
        if kind in ("reasoning", "thinking"):
            thought = next((part[k] for k in ("reasoning", "thinking", "text") if k in part), "")
            yield Part("reasoning", self._resolve(thought) if isinstance(thought, str) else "")
        elif kind == "tool_use":
            yield self._call(part.get("id"), part.get("name"), part.get("input"))
        elif kind == "tool_result":
            inner = list(self._content(part.get("content")))
            yield from self._result(
                {"tool_call_id": part.get("tool_use_id"), "error": part.get("is_error") or None},
                inner,
            )
        elif address is not None and "image" in kind:
            yield _image(self._resolve(address), self._files)
        elif isinstance(text := part.get("text", part.get("refusal")), str):
            yield Part("text", self._resolve(text))
        else:
            yield Part("text", f"[{whole_characters(kind)[:_LONGEST_ROLE]}]")

    def _calls(self, calls: Json) -> Iterator[Part]:
        if calls is None:
            return
        if not isinstance(calls, list):
            raise self._record.error(f"'tool_calls' should be a list, found {calls!r:.60}.")
        for call in calls:
            yield self._of_list(call)

    def _of_list(self, call: Json) -> Part:
        """Return a call: of OpenAI, of Inspect, whose function is a text, or of verifiers, which may write it as JSON."""
        if isinstance(call, str):
            try:
                call = json.loads(call)
            except (ValueError, RecursionError) as error:
                raise self._record.error(f"a call that is no JSON: {call!r:.60}.") from error
        if not isinstance(call, dict):
            raise self._record.error(f"a call should be an object, found {call!r:.60}.")
        function = call.get("function")
        inner = function if isinstance(function, dict) else call
        name = function if isinstance(function, str) else inner.get("name")
        return self._call(call.get("id"), name, inner.get("arguments"))

    def _call(self, call: Json, name: Json, arguments: Json) -> Part:
        if not isinstance(name, str):
            raise self._record.error(f"a call should name its function, found {name!r:.60}.")
        identity = _name(call)
        if identity is not None:
            self._names[identity] = whole_characters(name)
        if isinstance(arguments, dict):
            arguments = {
                key: self._resolve(value) if isinstance(value, str) else value
                for key, value in arguments.items()
            }
        return call_of(identity, whole_characters(name), {} if arguments is None else arguments)


def _name(value: Json) -> str | None:
    return whole_characters(value) if isinstance(value, str) and value else None


def _address(part: dict[str, Any]) -> str | None:
    """Return where the image of a part is; None if the part is no image."""
    found = part.get("image_url", part.get("image", part.get("source")))
    if isinstance(found, dict):
        data = found.get("data")
        if isinstance(data, str):  # Anthropic's form
            return f"data:{found.get('media_type')};base64,{data}"
        found = found.get("url", found.get("path"))
    return found if isinstance(found, str) else None


def _on_lines(parts: Iterable[Part]) -> Iterator[Part]:
    """Yield parts with a line break in front of each text and image that follows another: they stand apart in the file."""
    follows = False
    for part in parts:
        shown = part.kind in ("text", "image") and part.text != ""
        if shown and follows and part.kind == "image":
            yield Part("text", "\n")
        yield (
            replace(part, text=f"\n{part.text}")
            if shown and follows and part.kind == "text"
            else part
        )
        follows = shown or (follows and part.text == "")


_READ: WeakValueDictionary[str, Image] = WeakValueDictionary()
"""Images in use, by sha256: a file may name one again and again."""


def _image(address: str, files: Files) -> Part:
    """Return the part of an image: with its file if that is in the address or beside, and may be stored."""
    data = _DATA.fullmatch(address)
    named = Part("image", f"[image: {whole_characters(address)[:_LONGEST_ADDRESS]}]")
    try:
        content = (
            files(address) if data is None else base64.b64decode(data["content"], validate=True)
        )
    except binascii.Error:
        return Part("image", "[image]")
    if content is None:
        return named
    sha256 = hashlib.sha256(content).hexdigest()
    try:
        image = _READ.get(sha256) or read_image(content)
    except ImageError:  # such as SVG
        return named if data is None else Part("image", mark_of(sha256))
    return Part("image", image.mark, sha256=sha256, image=_READ.setdefault(sha256, image))
