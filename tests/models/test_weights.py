"""The identity of a served model's weights."""

import json
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from regrade.models import served
from regrade.models.base import ResolvedModel
from regrade.models.served import FIXED_PROMPTS, resolve_served
from regrade.records.computed import Computed, computed_differences
from regrade.settings.errors import SettingsError
from tests.http_server import Handler, serving


@dataclass
class Server:
    """A server with one model, started at `started`."""

    entry: dict[str, Any] = field(default_factory=dict)
    before: list[dict[str, Any]] = field(default_factory=list)
    """Entries that it lists before the model."""
    started: float | None = None
    answers: list[list[tuple[str, float]]] | None = None
    """Tokens and log-probabilities of the answers to any prompts; None: it has no completions."""
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    listings: int = 0
    """Times that it was asked for its models."""


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()

    class Api(Handler):
        def do_GET(self) -> None:
            if self.path == "/v1/models":
                made.listings += 1
                now = {"created": int(time.time())} | made.entry
                self.reply({"data": [*made.before, {"id": "m", **now}]})
            elif self.path == "/metrics" and made.started is not None:
                self.reply(f"# HELP x\nprocess_start_time_seconds {made.started}\n".encode())
            else:
                self.reply({}, 404)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(body)
            choices = []
            for number, answer in enumerate(made.answers or ()):
                tokens, values = zip(*answer, strict=True) if answer else ((), ())
                logprobs = {"tokens": tokens, "token_logprobs": values}
                choices.append({"index": number, "logprobs": logprobs})
            self.reply({"choices": choices[::-1]}, 404 if made.answers is None else 200)

    asked = made.asked
    with serving(Api) as address:
        made.url = f"{address}/v1"
        yield made


def resolved(server: Server) -> ResolvedModel:
    return resolve_served("m", base_urls=[server.url], api_key_env="OPENAI_API_KEY")


def revision(server: Server) -> str:
    return resolved(server).identity.revision


def test_another_checkpoint_under_the_same_name_and_port_is_another_model(server: Server):
    server.entry = {"root": "/ckpt/2", "owned_by": "vllm"}
    first = revision(server)
    assert revision(server) == first

    server.entry = {"root": "/ckpt/3", "owned_by": "vllm"}
    assert revision(server) != first
    assert "127.0.0.1" not in first


def test_a_model_is_told_by_its_own_entry_whatever_stands_before_it(server: Server):
    server.before = [{"object": "model"}, {"id": "other", "root": "/other"}]
    server.entry = {"root": "/mine", "created": 10**400}

    assert revision(server) == "root=/mine"


def test_a_server_whose_fixed_answers_are_no_numbers_gives_none(server: Server):
    server.entry, server.answers = {"root": "/mine"}, [[("a", 10**400)]] * len(FIXED_PROMPTS)

    assert resolved(server).fingerprint is None


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


ANSWERS = [[(" 391", -0.2), (".", -0.01), (" Q", -1.5)]] * 4


def differ(*models: ResolvedModel) -> bool:
    before, after = (Computed(fingerprint=model.fingerprint) for model in models)
    return any(computed_differences(before, after))


def test_a_folder_that_was_overwritten_is_told_by_its_answers_and_the_id_stays(
    server: Server, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    server.entry = {"root": "/ckpt/latest", "owned_by": "vllm"}
    server.answers = ANSWERS
    first, again = resolved(server), resolved(server)
    server.answers = [[(token, value - 0.01) for token, value in answer] for answer in ANSWERS]
    rounded = resolved(server)
    server.answers = [[(" 391", -0.2), (";", -0.9)]] * 4
    other = resolved(server)

    assert first.fingerprint == tuple(map(tuple, ANSWERS))
    assert not differ(first, again)
    assert not differ(first, rounded)
    assert differ(first, other)
    assert {m.identity.revision for m in (first, other)} == {"owned_by=vllm root=/ckpt/latest"}
    assert "its name or folder, and its answers to 4 fixed prompts" in caplog.text
    body = server.asked[0]
    assert (body["prompt"], body["temperature"], body["logprobs"]) == ([*FIXED_PROMPTS], 0, 1)


@pytest.mark.parametrize(
    ("entry", "revision", "by"),
    [
        ({"created": 1686588896}, None, "created"),
        ({"root": "/x", "created": 1686588896}, None, "created root"),
        ({"root": "/x"}, "step-5", "`--model-revision`"),
    ],
)
def test_what_is_told_already_is_not_asked_for(
    server: Server, caplog: pytest.LogCaptureFixture, entry: dict[str, Any], revision: str, by: str
):
    caplog.set_level(logging.INFO)
    server.entry, server.answers = entry, ANSWERS

    model = resolve_served("m", base_urls=[server.url], api_key_env="K", revision=revision)

    assert (model.fingerprint, server.asked) == (None, [])
    assert f"'m' at {server.url} is identified by {by}" in caplog.messages


@pytest.mark.parametrize("answers", [None, [], [[]] * 4, ANSWERS[:2]])
def test_a_server_that_does_not_answer_so_is_known_by_its_root_alone(
    server: Server, caplog: pytest.LogCaptureFixture, answers: Any
):
    caplog.set_level(logging.INFO)
    server.entry, server.answers = {"root": "/x"}, answers

    assert resolved(server).fingerprint is None
    assert "nothing else: if the folder was overwritten" in caplog.text


def test_servers_that_report_one_folder_and_answer_differently_are_refused(server: Server):
    server.entry, server.answers = {"root": "/x"}, ANSWERS
    replies = iter([ANSWERS, [[(" no", -3.0)]] * 4])
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SettingsError, match="quantization"):
        patch.setattr(served, "fingerprint", lambda *_: tuple(map(tuple, next(replies))))
        other = server.url.replace("127.0.0.1", "localhost")
        resolve_served("m", base_urls=[server.url, other], api_key_env="K")
    assert server.listings == 2  # each address is asked once
