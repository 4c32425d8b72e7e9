"""The client against servers like OpenAI's newer ones, which refuse fields of the API, and limit rates."""

import itertools
import logging
from pathlib import Path

import pytest
from aiohttp import web

import tasks.generate
from regrade.answers.local import LocalRepository
from regrade.answers.manifest import Manifest, Session
from regrade.answers.origin import read_origin
from regrade.answers.spool import Spool
from regrade.engines.openai import OpenAIEngine
from regrade.engines.openai_api.addresses import until_reset
from regrade.records import Request
from regrade.settings import Reuse, SamplingParams
from regrade.settings.errors import SettingsError
from tasks.plan import find_missing
from tasks.publish import publish_answers
from tasks.work import Work
from tests.crash.machines import NoArtifact
from tests.engines.openai_api.test_client import (
    Misbehaving,
    chosen,
    error,
    misbehaving_server,
    opened,
    requests,
    run,
    server,
)
from tests.sums import plan_of

__all__ = ["server"]
CHAT = ({"role": "user", "content": "2 + 2?"},)
GREEDY = SamplingParams(max_tokens=64, stop=("END",))


def refusal(field: str, message: str, code: str = "unsupported_parameter") -> web.Response:
    """An error as OpenAI's servers word it."""
    details = {"message": message, "type": "invalid_request_error", "param": field, "code": code}
    return web.json_response({"error": details}, status=400)


def newer(body: dict) -> web.Response:
    """A reasoning model of OpenAI: it takes neither decoding settings nor stop texts."""
    refused = "Unsupported parameter: '{}' is not supported with this model."
    if "max_tokens" in body:
        message = f"{refused} Use 'max_completion_tokens' instead."
        return refusal("max_tokens", message.format("max_tokens"))
    if body.get("temperature", 1) != 1:
        message = "Unsupported value: 'temperature' does not support 0 with this model."
        return refusal("temperature", message, "unsupported_value")
    for field in ("top_p", "presence_penalty", "frequency_penalty", "stop"):
        if field in body:
            return refusal(field, refused.format(field))
    return chosen(message={"content": "4. END. More"})


def test_fields_that_a_newer_server_refuses_are_left_out_said_once_and_kept(server, caplog):
    server.behaviour = newer
    with caplog.at_level(logging.INFO), opened(server) as engine:
        asked = [Request(key, CHAT, GREEDY) for key in range(30)]
        answers = [c for batch in engine.generate(asked) for c in batch]
        computed = engine.info.computed

    assert [answer.text for answer in answers] == ["4. "] * 30
    assert computed is not None
    assert computed.not_sent == (
        "temperature 0.0",
        "top_p 1.0",
        "presence_penalty 0.0",
        "frequency_penalty 0.0",
        "stop",
    )
    sent = {"model", "messages", "max_completion_tokens", "stream", "stream_options"}
    assert server.bodies[-1].keys() == sent
    assert server.bodies[-1]["max_completion_tokens"] == 64
    said = [record.getMessage() for record in caplog.records]
    assert sum("temperature 0.0 is not sent any more" in text for text in said) == 1
    assert sum("'max_completion_tokens' is sent instead" in text for text in said) == 1


def test_a_server_that_takes_all_fields_gets_all_and_the_session_says_so(server):
    with opened(server) as engine:
        list(engine.generate(requests(["p"])))

        assert engine.info.computed is not None
        assert engine.info.computed.not_sent == ()


def test_what_was_not_sent_is_stored_with_the_answers_and_not_continued_otherwise(
    server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tasks.generate, "ProgressArtifact", NoArtifact)
    server.behaviour = newer
    settings = OpenAIEngine(base_url=server.url)

    def answered(name: str, earlier: tuple[Session, ...] = ()) -> Manifest:
        repository = LocalRepository(tmp_path / name)
        work = Work(plan_of(12), repository, Spool(tmp_path / f"spool-{name}"), Reuse())
        with work.spool, opened(server) as engine:
            find_missing(work)
            work.sessions = earlier
            tasks.generate.generate_missing.fn([work], engine, settings)
            origin = read_origin(work.spool)
            publish_answers.fn(work)
        assert origin is not None
        assert [session.computed is None for session in origin.sessions] == [False]
        assert work.published is not None
        return work.published.manifest

    first = answered("first")
    assert (first.state, first.not_sent) == ("complete", ("temperature 0.0",))
    assert len(first.sessions) == 1

    server.behaviour = lambda body: chosen(message={"content": "4"})
    with pytest.raises(SettingsError, match="not sent: temperature 0.0, .* against none"):
        answered("second", first.sessions)


@pytest.mark.parametrize(
    "message",
    [
        "'max_tokens' or 'max_completion_tokens' is too large: 64. This model's maximum context length is 8 tokens",
        "temperature must be between 0 and 2",
        "Unsupported parameter: 'logit_bias'. Supported are temperature and max_tokens",
    ],
)
def test_no_field_is_left_out_because_a_message_names_it(server, message):
    field = "logit_bias" if "logit_bias" in message else None
    server.behaviour = lambda body: refusal(field or "", message)

    (answer,) = run(server, ["p"])

    assert message in str(answer.error)
    assert len(server.bodies) == 1


def test_a_run_ends_when_its_first_requests_are_all_refused_for_one_reason(server):
    server.behaviour = lambda body: error(400, "this model is only available in v1/responses")
    answers = []

    refused = pytest.raises(SettingsError, match="first 8 requests.*only available in v1/responses")
    with opened(server, max_concurrency=4) as engine, refused:
        answers.extend(engine.generate(requests([f"p{n}" for n in range(400)])))

    assert answers == [], "nothing is stored of a run that only failed"
    assert len(server.bodies) < 30


@pytest.mark.parametrize(
    "message",
    ["flagged as potentially violating our usage policy", "maximum context length is 8 tokens"],
)
def test_refusals_that_lie_in_the_questions_end_no_run(server, message):
    server.behaviour = lambda body: error(400, message)

    assert [c.error is not None for c in run(server, [f"p{n}" for n in range(20)])] == [True] * 20


def test_refusals_for_different_reasons_are_rows(server):
    number = itertools.count()
    server.behaviour = lambda body: error(400, f"reason {next(number)}")

    assert len(run(server, [f"p{n}" for n in range(20)])) == 20


class Limited(Misbehaving):
    """A server that takes few requests at a time, and refuses others for some time."""

    most = 3
    refused = 0

    async def complete(self, request: web.Request) -> web.StreamResponse:
        if self.in_flight >= self.most:
            self.refused += 1
            return error(429, "Rate limit reached", **{"Retry-After": "0.3"})
        return await super().complete(request)


def test_requests_in_flight_follow_a_server_that_refuses_too_many_which_uses_up_no_retries():
    with misbehaving_server(Limited()) as server:
        assert isinstance(server, Limited)
        server.delay = 0.03

        answers = run(server, [f"p{n}" for n in range(60)], max_concurrency=24, max_retries=1)

    assert [answer.error for answer in answers] == [None] * 60
    assert server.refused < 24 + 12 + 30, "the server is not asked again and again"


def test_a_request_that_is_always_refused_as_too_many_ends_while_others_are_answered(server):
    tries = []

    def too_large(body):
        if "large" in str(body.get("prompt")):
            tries.append(body)
            return error(429, "Request too large", **{"Retry-After": "0.01"})
        return chosen(text="!")

    server.behaviour = too_large
    prompts = ["large", *(f"p{n}" for n in range(20))]

    answers = run(server, prompts, max_concurrency=4, max_retries=2)

    assert [answer.error is None for answer in answers] == [False] + [True] * 20
    assert len(tries) <= 2 + 1 + 3


def test_a_server_that_says_that_nothing_is_left_gets_nothing_until_then(server):
    header = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "500ms"}
    body = {"choices": [{"index": 0, "text": "!", "finish_reason": "stop"}]}
    server.behaviour = lambda _: web.json_response(body, headers=header)

    run(server, ["p", "q"], max_concurrency=1)

    assert server.times[1] - server.times[0] >= 0.5


@pytest.mark.parametrize(
    ("reset", "seconds"),
    [("6m0s", 360), ("1h2m3.5s", 3723.5), ("120ms", 0.12), ("", None), ("soon", None), ("5", None)],
)
def test_a_reset_is_read_as_openai_writes_it(reset, seconds):
    headers = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": reset}

    assert until_reset(headers) == (None if seconds is None else pytest.approx(seconds))
    assert until_reset({**headers, "x-ratelimit-remaining-tokens": "1"}) is None
