"""The identity of a served model's weights."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from regrade.models import resolve_served
from tests.http_server import Handler, serving


@dataclass
class Server:
    """A server with one model, started at `started`."""

    entry: dict[str, Any] = field(default_factory=dict)
    started: float | None = None
    url: str = ""


@pytest.fixture
def server() -> Iterator[Server]:
    served = Server()

    class Api(Handler):
        def do_GET(self) -> None:
            if self.path == "/v1/models":
                now = {"created": int(time.time())} | served.entry
                self.reply({"data": [{"id": "m", **now}]})
            elif self.path == "/metrics" and served.started is not None:
                self.reply(f"# HELP x\nprocess_start_time_seconds {served.started}\n".encode())
            else:
                self.reply({}, 404)

    with serving(Api) as address:
        served.url = f"{address}/v1"
        yield served


def revision(server: Server) -> str:
    model = resolve_served("m", base_url=server.url, api_key_env="OPENAI_API_KEY")
    return model.identity.revision


def test_another_checkpoint_under_the_same_name_and_port_is_another_model(server: Server):
    server.entry = {"root": "/ckpt/2", "owned_by": "vllm"}
    first = revision(server)
    assert revision(server) == first

    server.entry = {"root": "/ckpt/3", "owned_by": "vllm"}
    assert revision(server) != first
    assert "127.0.0.1" not in first


def test_a_model_that_was_created_once_is_known_by_that(server: Server):
    server.entry = {"created": 1686588896, "owned_by": "openai"}

    assert revision(server) == "created=1686588896 owned_by=openai"


def test_the_time_of_the_request_is_not_the_models(server: Server):
    server.entry = {"root": "/ckpt/2"}

    assert revision(server) == "root=/ckpt/2"


def test_a_server_that_tells_nothing_is_known_until_it_restarts(
    server: Server, caplog: pytest.LogCaptureFixture
):
    server.started = 1.7e9
    first = revision(server)
    assert revision(server) == first
    assert "continued only until the server restarts" in caplog.text
    assert "--model-revision" in caplog.text

    server.started = 1.7e9 + 60
    assert revision(server) != first


def test_a_server_that_tells_not_even_its_start_is_never_continued(
    server: Server, caplog: pytest.LogCaptureFixture
):
    assert revision(server) != revision(server)
    assert "neither which weights 'm' has nor when it started" in caplog.text


def test_a_revision_by_hand_is_the_identity(server: Server):
    model = resolve_served(
        "m", base_url=server.url, api_key_env="OPENAI_API_KEY", revision="step-500"
    )

    assert model.identity.revision == "step-500"
