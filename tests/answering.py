"""An OpenAI-compatible server whose replies a test decides: an engine that starts at once."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from regrade.models.served import FIXED_PROMPTS
from tests.http_server import Handler, serving

Reply = Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]
"""Gets the body of a request; returns the status and the body of the response."""


def said(text: str, *, prompt_tokens: int = 3, completion_tokens: int = 2) -> dict[str, Any]:
    """Body of a response with one chat answer."""
    choice = {"index": 0, "message": {"content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    return {"choices": [choice], "usage": usage}


@contextmanager
def answering(reply: Reply, model: Callable[[], dict[str, Any]]) -> Iterator[str]:
    """Yield the address of the API.

    Args:
        reply: Answers each request.
        model: Describes the only model, as `/v1/models` lists it.
    """

    class Api(Handler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found = self.path == "/v1/models"
            self.reply({"data": [model()]} if found else {}, 200 if found else 404)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if body.get("prompt") == [*FIXED_PROMPTS]:
                self.reply({}, 404)
                return
            status, content = reply(body)
            self.reply(content, status)

    with serving(Api) as address:
        yield f"{address}/v1"
