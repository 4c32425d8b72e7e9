"""Read a streamed answer of an OpenAI-compatible server and join its pieces.

Server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html, one JSON object for each event.
"""

import time
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from regrade.records.tools import MOST_CALLS

END = b"[DONE]"
"""Data of the last event."""
_TEXTS = ("content", "reasoning_content", "reasoning", "refusal")


async def events(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the data of each event, `[DONE]` included, from the bytes of a response, split anywhere."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield line.removeprefix(b"data:").strip()


def as_text(content: object) -> str:
    """Return the content of an answer, or of a piece of it; empty for None.

    Raises:
        ValueError: If it is not text but, for example, a list of parts, which must not count as an empty answer.
    """
    if content is None or isinstance(content, str):
        return content or ""
    raise ValueError(f"The server sent {type(content).__name__} instead of text: {content!r:.100}")


@dataclass
class _ArrivedAnswer:
    """The part of an answer that has arrived."""

    chunks: list[float] = field(default_factory=list)
    """Time of each piece with text, by `time.monotonic`."""
    text: list[str] = field(default_factory=list)
    message: dict[str, list[str]] = field(default_factory=dict)
    calls: dict[int, dict[str, list[str]]] = field(default_factory=dict)
    """Pieces of the `name` and `arguments` of each call of a tool."""
    finish_reason: str | None = None

    def add(self, choice: Mapping[str, Any]) -> None:
        """Append a piece.

        Raises:
            ValueError: If it is no text.
        """
        delta = choice.get("delta") or {}
        pieces = [(self.message.setdefault(name, []), delta.get(name)) for name in _TEXTS]
        with_text = self._add_calls(delta.get("tool_calls") or [])
        for texts, piece in [(self.text, choice.get("text")), *pieces]:
            if text := as_text(piece):
                texts.append(text)
                with_text = True
        if with_text:
            self.chunks.append(time.monotonic())
        self.finish_reason = choice.get("finish_reason") or self.finish_reason

    def _add_calls(self, pieces: object) -> bool:
        """Append pieces of calls; return True if there are any.

        Raises:
            ValueError: If one is no piece of a call, or there are too many calls.
        """
        for piece in pieces if isinstance(pieces, list) else [pieces]:
            function = (piece.get("function") or {}) if isinstance(piece, Mapping) else None
            place = piece.get("index", 0) if isinstance(piece, Mapping) else None
            if not isinstance(function, Mapping) or not isinstance(place, int):
                raise ValueError(f"The server sent {piece!r:.100} instead of a piece of a call")
            call = self.calls.setdefault(place, {"name": [], "arguments": []})
            if len(self.calls) > MOST_CALLS:
                raise ValueError(f"The answer has more than {MOST_CALLS:,} calls of tools")
            for name, texts in call.items():
                texts.append(as_text(function.get(name)))
        return bool(pieces)


@dataclass
class StreamedResponse:
    """Response to a request of one or several prompts."""

    ended: bool = False
    """The server has sent the event `[DONE]`."""
    usage: dict[str, Any] = field(default_factory=dict)
    choices: dict[int, _ArrivedAnswer] = field(default_factory=dict)

    def add(self, event: Mapping[str, Any]) -> None:
        """Append the pieces of an event.

        Raises:
            ValueError: If one is no text.
        """
        self.usage = event.get("usage") or self.usage
        for choice in event.get("choices") or []:
            self.choices.setdefault(int(choice.get("index", 0)), _ArrivedAnswer()).add(choice)

    @property
    def is_whole(self) -> bool:
        """True if the response is complete."""
        finished = [choice.finish_reason is not None for choice in self.choices.values()]
        return bool(finished) and (self.ended or all(finished))

    def document(self, *, chat: bool, started: float) -> dict[str, Any]:
        """Return the response as if it were not streamed.

        Choices with text also have `chunks`: the times of their pieces, in seconds since the request was sent.

        Args:
            chat: Answers are messages.
            started: Time at which the request was sent, by `time.monotonic`.
        """
        choices = []
        for index, choice in self.choices.items():
            entry: dict[str, Any] = {"index": index, "finish_reason": choice.finish_reason}
            if chat:
                entry["message"] = {
                    name: "".join(texts) for name, texts in choice.message.items() if texts
                }
                if choice.calls:
                    entry["message"]["tool_calls"] = [
                        {"function": {name: "".join(texts) for name, texts in call.items()}}
                        for _, call in sorted(choice.calls.items())
                    ]
            else:
                entry["text"] = "".join(choice.text)
            if choice.chunks:
                entry["chunks"] = [chunk - started for chunk in choice.chunks]
            choices.append(entry)
        return {"choices": choices, "usage": self.usage, "seconds": time.monotonic() - started}
