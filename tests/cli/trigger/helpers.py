"""`regrade trigger` in a process of its own, and what stands between it and the server."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from tests.command_line import Ran, regrade


def wait_for(found: Any, otherwise: Any = str, seconds: float = 120) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if result := found():
            return result
        time.sleep(0.2)
    raise AssertionError(f"nothing came in {seconds} s: {otherwise()}")


def trigger(url: str, *arguments: str | Path, **environment: str) -> Ran:
    return regrade("trigger", *arguments, PREFECT_API_URL=url, **environment)


def read_run(url: str, flow_run_id: str) -> dict[str, Any]:
    return dict(httpx.get(f"{url}/flow_runs/{flow_run_id}", timeout=30).json())


@dataclass(frozen=True)
class Reply:
    status: int
    content: bytes = b"{}"
    kind: str = "application/json"
    location: str = ""


@contextmanager
def between(
    reply: Callable[[str, Callable[[], Reply]], Reply | None], url: str = ""
) -> Iterator[tuple[str, list[str]]]:
    """HTTP server that answers as `reply` says, which gets the path and a function that asks the server at `url`.

    None drops the connection. Yields the address and a list of the paths that were requested.
    """
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))

            def ask() -> Reply:
                answer = httpx.request(
                    self.command,
                    url.removesuffix("/api") + self.path,
                    content=body,
                    headers={
                        name: value
                        for name, value in self.headers.items()
                        if name.lower() not in ("host", "connection", "accept-encoding")
                    },
                    timeout=60,
                )
                return Reply(answer.status_code, answer.content)

            seen.append(self.path)
            replied = reply(self.path, ask)
            if replied is None:
                self.close_connection = True
                return
            self.send_response(replied.status)
            self.send_header("Content-Type", replied.kind)
            self.send_header("Content-Length", str(len(replied.content)))
            if replied.location:
                self.send_header("Location", replied.location)
            self.end_headers()
            self.wfile.write(replied.content)

        do_GET = do_POST = answer  # noqa: N815 - the names of BaseHTTPRequestHandler

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/api", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
