"""Faults of the real Hub and its network, simulated by rules in an ASGI layer."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send


@dataclass(frozen=True)
class Answer:
    """Answer with an error status instead of handling the request; with `afterwards`, handle it first."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    text: str = "fault"
    afterwards: bool = False


@dataclass(frozen=True)
class Drop:
    """Close the connection without an answer; with `afterwards`, handle the request first."""

    afterwards: bool = False


@dataclass(frozen=True)
class CutUpload:
    """Close the connection after some bytes of the request's body."""

    after_bytes: int


@dataclass(frozen=True)
class Corrupt:
    """Change one byte of the answer's body and keep its length."""


@dataclass(frozen=True)
class Truncate:
    """Announce the whole body, send some bytes of it, and close the connection."""

    to_bytes: int


@dataclass(frozen=True)
class Stall:
    """Wait before handling the request; with `afterwards`, between handling and answering."""

    seconds: float
    afterwards: bool = False


@dataclass(frozen=True)
class Lag:
    """Answer from the parent of the newest commit."""


Action = Answer | Drop | CutUpload | Corrupt | Truncate | Stall | Lag


@dataclass
class Rule:
    """A fault for `count` matching requests, after the first `after` matching requests passed unchanged."""

    method: str
    path: re.Pattern[str]
    action: Action
    count: int
    after: int = 0

    def take(self, method: str, path: str) -> bool:
        if method != self.method or not self.path.search(path) or self.count == 0:
            return False
        if self.after > 0:
            self.after -= 1
            return False
        self.count -= 1
        return True


@dataclass(frozen=True)
class Seen:
    """A request that the server received."""

    method: str
    path: str
    authorized: bool


class FaultLayer:
    """Records every request, and applies the first matching rule."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.rules: list[Rule] = []
        self.seen: list[Seen] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        self.seen.append(Seen(scope["method"], scope["path"], b"authorization" in headers))
        for rule in self.rules:
            if rule.take(scope["method"], scope["path"]):
                await self._apply(rule.action, scope, receive, send)
                return
        await self.app(scope, receive, send)

    async def _apply(self, action: Action, scope: Scope, receive: Receive, send: Send) -> None:
        match action:
            case Answer() | Drop():
                if action.afterwards:
                    await self.app(scope, receive, _swallow)
                else:
                    await _read_body(receive)
                if isinstance(action, Drop):
                    await _abort(send)
                else:
                    await _answer(action, send)
            case CutUpload(after_bytes):
                await _read_body(receive, up_to=after_bytes)
                await _abort(send)
            case Corrupt():
                await self.app(scope, receive, _changing(send, _flip))
            case Truncate(to_bytes):
                await self.app(scope, receive, _changing(send, lambda body: body[:to_bytes]))
                await _abort(send)
            case Stall(seconds, afterwards=False):
                await asyncio.sleep(seconds)
                await self.app(scope, receive, send)
            case Stall(seconds):
                await self.app(scope, receive, _delayed(send, seconds))
            case Lag():
                await self.app(scope | {"hub_lag": True}, receive, send)


async def _swallow(message: Message) -> None:
    """Drop the answer to a request that took effect."""


async def _read_body(receive: Receive, up_to: int | None = None) -> None:
    read, more = 0, True
    while more and (up_to is None or read < up_to):
        message = await receive()
        read += len(message.get("body", b""))
        more = message.get("more_body", False)


async def _abort(send: Send) -> None:
    # The layer is outermost, so `send` is a method of uvicorn's cycle, which has the connection.
    cycle: Any = send.__self__  # type: ignore[attr-defined]
    await asyncio.sleep(0.01)  # sends earlier output first
    cycle.transport.abort()
    while not cycle.disconnected:
        await asyncio.sleep(0.001)


async def _answer(action: Answer, send: Send) -> None:
    body = action.text.encode(errors="surrogateescape")
    headers = [(k.lower().encode(), v.encode()) for k, v in action.headers.items()]
    headers += [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": action.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _delayed(send: Send, seconds: float) -> Send:
    async def delayed(message: Message) -> None:
        if message["type"] == "http.response.start":
            await asyncio.sleep(seconds)
        await send(message)

    return delayed


def _changing(send: Send, change: Callable[[bytes], bytes]) -> Send:
    async def changed(message: Message) -> None:
        if message["type"] == "http.response.body":
            body = change(message.get("body", b""))
            shorter = len(body) < len(message.get("body", b""))
            message = {**message, "body": body, "more_body": shorter}
        await send(message)

    return changed


def _flip(body: bytes) -> bytes:
    middle = len(body) // 2
    return body[:middle] + bytes([body[middle] ^ 0xFF]) + body[middle + 1 :] if body else body
