"""`regrade trigger` in a process of its own, and what stands between it and the server."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.command_line import Ran, regrade
from tests.http_server import Handler, serving
from tests.prefect_login import Login


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
    return dict(httpx.get(f"{url}/flow_runs/{flow_run_id}", auth=Login(), timeout=30).json())


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

    class Between(Handler):
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
            location = {"Location": replied.location} if replied.location else {}
            self.reply(replied.content, replied.status, {"Content-Type": replied.kind, **location})

        do_GET = do_POST = answer

    with serving(Between) as address:
        yield f"{address}/api", seen
