"""Pages of an attacker: on another port of this machine, and on a name that leads to a server of this machine (DNS rebinding)."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from selenium import webdriver

from tests.http_server import Handler, serving

FOREIGN = "attacker.example"
"""Name that a browser with the flag `REBINDING` resolves to 127.0.0.1."""
REBINDING = f"--host-resolver-rules=MAP {FOREIGN} 127.0.0.1"
"""Flag of Chromium: an entry of a name server that the attacker controls."""
SCRIPT = """
const [url, body, kind, done] = arguments;
const bytes = new TextEncoder().encode(body);
const ways = {
    get: {},
    simple: {method: "POST", mode: "no-cors", body: bytes},
    form: {method: "POST", mode: "no-cors", body, headers: {"Content-Type": "text/plain"}},
    json: {method: "POST", body, headers: {"Content-Type": "application/json"}},
};
fetch(url, {...ways[kind], signal: AbortSignal.timeout(20000)}).then(
    async answer => done({type: answer.type, status: answer.status, text: (await answer.text()).slice(0, 300)}),
    error => done({type: "error", status: 0, text: String(error)}),
);
"""
SOCKET = """
const [url, protocols, done] = arguments;
const socket = new WebSocket(url, protocols);
socket.onopen = () => done("open");
socket.onclose = event => done(`closed ${event.code}`);
setTimeout(() => done("nothing"), 20000);
"""


@dataclass(frozen=True)
class Attacker:
    """A page in a browser."""

    browser: webdriver.Chrome

    def request(self, kind: str, url: str, body: Any = None) -> dict[str, Any]:
        """Send a request from the page, in one of the `ways`; return what the page sees of the answer."""
        told = self.browser.execute_async_script(SCRIPT, url, json.dumps(body or {}), kind)
        assert isinstance(told, dict)
        return told

    def socket(self, url: str, protocols: Sequence[str] = ()) -> str:
        """Open a websocket from the page; return `open` if the server accepts it."""
        return str(self.browser.execute_async_script(SOCKET, url, list(protocols)))


@contextmanager
def hostile_page() -> Iterator[str]:
    """Address of an empty page on a free port of 127.0.0.1."""

    class Page(Handler):
        def do_GET(self) -> None:
            page = b"<!doctype html><title>a page</title>"
            self.reply(page, headers={"Content-Type": "text/html"})

    with serving(Page) as address:
        yield f"{address}/"
