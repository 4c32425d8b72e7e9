"""The client against a server that fails on demand."""

import asyncio
import base64
import gc
import gzip
import json
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from regrade.answers.spool import Spool
from regrade.engines.base import PromptRendering
from regrade.engines.openai import OpenAIEngine
from regrade.engines.openai_api.bodies import (
    messages_body,
    prompt_fields,
    sampling_body,
    tool_calls,
)
from regrade.engines.openai_api.client import OpenAIClient
from regrade.jobs.generate import Filling, fill
from regrade.models.served import FIXED_PROMPTS
from regrade.records import Completion, Request
from regrade.records.images import read_image
from regrade.settings import SamplingParams
from regrade.settings.errors import EngineError, SettingsError
from tests.conversations import plan_of_turns, write_turns
from tests.records.test_images import file_of

Behaviour = Callable[[dict], web.StreamResponse]
SAMPLING = SamplingParams(max_tokens=4)


@dataclass
class Misbehaving:
    """An OpenAI-compatible server that answers with `behaviour`, and echoes the prompt if that is None."""

    url: str = ""
    bodies: list[dict] = field(default_factory=list)
    headers: list[dict] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    behaviour: Behaviour | None = None
    in_flight: int = 0
    most_in_flight: int = 0
    delay: float = 0.0

    owner: str | None = None
    rendered: tuple[str, ...] | None = None
    """Tokens that `/tokenize` answers with; None: it does not exist."""
    text: str = ""
    """Answer of `/detokenize`."""
    root: str | None = None
    go_away: Callable[[], None] = lambda: None
    """Ends the server and its connections."""

    async def models(self, request: web.Request) -> web.Response:
        owner = {"owned_by": self.owner} if self.owner else {}
        if self.root:
            owner["root"] = self.root
        return web.json_response({"data": [{"id": "small", **owner}, {"id": "other"}]})

    async def tokenize(self, request: web.Request) -> web.Response:
        self.asked = await request.json()
        if self.rendered is None:
            return error(404)
        return web.json_response({"tokens": [1], "token_strs": list(self.rendered)})

    async def detokenize(self, request: web.Request) -> web.Response:
        return web.json_response({"prompt": self.text})

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if body.get("prompt") == [*FIXED_PROMPTS]:
            return error(404)
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        self.times.append(time.monotonic())
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(self.delay)
        self.in_flight -= 1
        response = (self.behaviour or echo)(body)
        if isinstance(response, Streamed):
            return await response.sent(request)
        return response

    def request_count(self, prompt: str) -> int:
        return sum(body.get("prompt") == prompt for body in self.bodies)


class Streamed(web.StreamResponse):
    """Events, with a pause before each; the connection ends without a last event if `ends` is false."""

    def __init__(self, pieces: list[dict], *, pause: float = 0.0, ends: bool = True) -> None:
        super().__init__(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        self.pieces, self.pause, self.ends = pieces, pause, ends

    async def sent(self, request: web.Request) -> web.StreamResponse:
        await self.prepare(request)
        for piece in self.pieces:
            await asyncio.sleep(self.pause)
            await self.write(f"data: {json.dumps(piece)}\n\n".encode())
        if self.ends:
            await self.write(b"data: [DONE]\n\n")
        return self


def pieces(*texts: str) -> list[dict]:
    """Events of a completion."""
    said = [{"choices": [{"index": 0, "text": text}]} for text in texts]
    last = {"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]}
    return [*said, last, {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 5}}]


def echo(body: dict) -> web.Response:
    prompts = body["prompt"] if isinstance(body.get("prompt"), list) else [body.get("prompt")]
    choices = [
        {"index": i, "text": f"{prompt}!", "finish_reason": "stop"}
        for i, prompt in reversed(list(enumerate(prompts)))
    ]
    usage = {"prompt_tokens": 3, "completion_tokens": 1}
    return web.json_response({"choices": choices, "usage": usage})


def chosen(**choice: object) -> web.Response:
    """A response with one choice."""
    return web.json_response({"choices": [{"index": 0, "finish_reason": "stop", **choice}]})


def error(status: int, message: str = "no", **headers: str) -> web.Response:
    return web.json_response({"error": {"message": message}}, status=status, headers=headers)


def failing(times: int, response: Callable[[], web.Response]) -> Behaviour:
    """A behaviour that answers `response()` to the first requests and echoes the later ones."""
    seen = iter(range(times))
    return lambda body: response() if next(seen, None) is not None else echo(body)


@pytest.fixture
def server() -> Iterator[Misbehaving]:
    with misbehaving_server() as server:
        yield server


@contextmanager
def misbehaving_server(server: Misbehaving | None = None) -> Iterator[Misbehaving]:
    misbehaving = server or Misbehaving()
    loop = asyncio.new_event_loop()
    app = web.Application()
    app.router.add_get("/v1/models", misbehaving.models)
    app.router.add_post("/tokenize", misbehaving.tokenize)
    app.router.add_post("/detokenize", misbehaving.detokenize)
    app.router.add_post("/v1/completions", misbehaving.complete)
    app.router.add_post("/v1/chat/completions", misbehaving.complete)
    runner = web.AppRunner(app)

    async def start() -> None:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        misbehaving.url = f"http://127.0.0.1:{port}/v1"

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(start(), loop).result()
    misbehaving.go_away = lambda: asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
    try:
        yield misbehaving
    finally:
        misbehaving.go_away()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        with warnings.catch_warnings():
            # A server that goes away leaves connections that it was just accepting.
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect(1)


def run(
    server: Misbehaving, prompts: list, *, sampling: SamplingParams = SAMPLING, **settings
) -> list[Completion]:
    asked = [Request(key, prompt, sampling) for key, prompt in enumerate(prompts)]
    with opened(server, **settings) as client:
        completions = [c for batch in client.generate(asked) for c in batch]
    return sorted(completions, key=lambda completion: completion.key)


def opened(server: Misbehaving, **settings) -> OpenAIClient:
    engine = OpenAIEngine(base_url=server.url, **{"max_retries": 2, **settings})
    return OpenAIClient(engine, engine.resolve("small"), rendering=PromptRendering())


def requests(prompts: list[str]) -> list[Request]:
    return [Request(key, prompt, SAMPLING) for key, prompt in enumerate(prompts)]


@pytest.mark.parametrize("text", [None, "no"])
def test_turns_are_sent_in_the_same_call_once_the_answer_before_them_is_there(
    server, tmp_path, text
):
    talks = [[f"{name}{turn}" for turn in (1, 2, 3)] for name in "abcdefghijk"]
    plan = plan_of_turns(write_turns(tmp_path / "talks.jsonl", *talks))
    first = talks[0][0]

    def behaviour(body: dict) -> web.StreamResponse:
        asked = body["messages"][-1]["content"]
        if text is not None and asked == first:
            return error(400, text)
        return chosen(message={"role": "assistant", "content": f"re {asked}"})

    server.behaviour = behaviour
    with opened(server, max_concurrency=2) as client, Spool(tmp_path / "spool") as spool:
        calls = []
        generate = client.generate
        client.generate = lambda asked: (calls.append(1), generate(asked))[1]  # type: ignore[method-assign]
        filling = Filling(plan.requests(plan.missing(set())), spool, lambda _: None)
        fill([filling], client)

    assert len(calls) == 1
    asked = [[turn["content"] for turn in body["messages"]] for body in server.bodies]
    whole = [t for t in talks if text is None or t[0] != first]
    assert sorted(turns for turns in asked if len(turns) == 5) == [
        [a, f"re {a}", b, f"re {b}", c] for a, b, c in whole
    ]
    assert filling.progress.failed == (0 if text is None else 3)


@pytest.mark.parametrize("status", [429, 503])
def test_a_temporary_failure_is_retried(server, status):
    server.behaviour = failing(2, lambda: error(status))

    (completion,) = run(server, ["p"])

    assert completion.text == "p!"
    assert server.request_count("p") == 3


def test_the_client_waits_as_long_as_the_server_requests(server):
    server.behaviour = failing(1, lambda: error(429, **{"Retry-After": "1"}))

    run(server, ["p"])

    assert server.times[1] - server.times[0] >= 1


def test_an_answer_that_is_still_coming_is_not_sent_again(server):
    """Reasoning takes many minutes: the timeout counts from the last piece."""
    server.behaviour = lambda body: Streamed(pieces("a ", "b ", "c ", "d "), pause=0.3)

    (completion,) = run(server, ["p"], timeout=1.5)

    assert (completion.text, completion.finish_reason) == ("a b c d ", "stop")
    assert (completion.prompt_tokens, completion.completion_tokens) == (3, 5)
    assert completion.time_to_first_token is not None
    assert completion.latency is not None
    assert 0.3 <= completion.time_to_first_token < completion.latency - 0.1
    assert completion.latency >= 1.8
    assert server.request_count("p") == 1


def test_the_client_measures_what_it_sees_chunk_by_chunk(server):
    server.behaviour = lambda body: Streamed(pieces("a ", "b ", "c "), pause=0.1)

    with opened(server, max_concurrency=2) as engine:
        answered = [c for batch in engine.generate(requests(["p", "q", "r", "s"])) for c in batch]
        speed = engine.measure()

    assert speed is not None
    assert (speed.measured_by, speed.requests, speed.running_max) == ("client", 4, 2)
    assert speed.other_side is None  # the server shows no metrics
    assert speed.ttft is not None
    assert speed.itl is not None
    assert speed.tpot is not None
    assert speed.e2el is not None
    assert (speed.ttft.n, speed.itl.n, speed.tpot.n) == (4, 8, 4)
    assert speed.ttft.mean > 0.09
    assert speed.itl.mean > 0.09
    parts = speed.ttft.mean + 2 * speed.itl.mean
    assert parts + 0.09 < speed.e2el.mean  # two more events end an answer
    assert speed.tpot.mean == pytest.approx(
        speed.itl.mean * 2 / 4, rel=0.05
    )  # 5 tokens in 3 chunks
    latencies = [c.latency or 0.0 for c in answered]
    assert speed.e2el.mean == pytest.approx(sum(latencies) / 4)
    assert speed.running_mean == pytest.approx(2, rel=0.3)


def test_answers_that_were_read_in_part_have_no_measurements(server):
    with opened(server, max_concurrency=2) as engine:
        stream = engine.generate(requests(["p", "q", "r"]))
        next(stream)
        stream.close()  # type: ignore[attr-defined]

        assert engine.measure() is None


def test_an_answer_that_stops_coming_is_asked_for_again_and_its_times_begin_with_the_first_attempt(
    server,
):
    slow = iter([0.6])
    server.behaviour = lambda body: Streamed(pieces("a", "b"), pause=next(slow, 0.02))

    (completion,) = run(server, ["p"], timeout=0.3)

    assert completion.text == "ab"
    assert server.request_count("p") == 2
    assert completion.time_to_first_token is not None
    assert completion.latency is not None
    assert 0.3 < completion.time_to_first_token < completion.latency


@pytest.mark.parametrize(
    "broken",
    [
        Streamed(pieces("a", "b")[:2], ends=False),
        Streamed([*pieces("a")[:1], {"error": {"message": "out of memory", "code": 500}}]),
        web.json_response({"error": {"message": "the model's server is gone", "code": 502}}),
    ],
    ids=["ends early", "says that it failed", "says with a success that it failed"],
)
def test_half_an_answer_is_no_answer(server, broken):
    parts = iter([broken])
    server.behaviour = lambda body: next(parts, None) or echo(body)

    (completion,) = run(server, ["p"])

    assert completion.text == "p!"
    assert server.request_count("p") == 2


def test_a_refusal_in_the_middle_of_an_answer_fails_its_row_alone(server):
    refusal = [*pieces("a")[:1], {"error": {"message": "bad grammar", "code": 400}}]
    server.behaviour = lambda body: Streamed(refusal) if body["prompt"] == "p1" else echo(body)

    completions = run(server, ["p0", "p1"])

    assert [c.text for c in completions] == ["p0!", None]
    assert "(400): bad grammar" in str(completions[1].error)
    assert server.request_count("p1") == 1


def test_an_answer_with_an_empty_error_is_an_answer(server):
    server.behaviour = lambda body: Streamed([{**piece, "error": None} for piece in pieces("a")])

    (completion,) = run(server, ["p"])

    assert (completion.text, completion.error) == ("a", None)


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        ({"choices": [None]}, "choices.0"),
        ({"choices": [{"index": None, "text": "a"}]}, "choices.0.index"),
        ({"choices": [{"text": "a", "finish_reason": 5}]}, "choices.0.finish_reason"),
        ({"choices": [{"message": "a", "delta": "a"}]}, "choices.0.message"),
        ({"choices": [{"text": "a", "logprobs": {"tokens": [5]}}]}, "choices.0.logprobs.tokens.0"),
        ({"choices": [], "usage": [5]}, "usage"),
        ({"choices": [], "usage": {"completion_tokens": 1.5}}, "usage.completion_tokens"),
        ({"choices": [], "usage": {"completion_tokens": 1 << 31}}, "usage.completion_tokens"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_a_response_of_another_form_fails_its_row_alone_and_is_not_stored(
    server, response, problem, streamed
):
    def behave(body: dict) -> web.StreamResponse:
        if body["prompt"] == "p0":
            return echo(body)
        return Streamed([response]) if streamed else web.json_response(response)

    server.behaviour = behave

    completions = run(server, ["p0", "p1"])

    assert [c.text for c in completions] == ["p0!", None]
    assert f"not of the API's form: `{problem}` should be" in str(completions[1].error)


@pytest.mark.parametrize(
    ("choices", "problem"),
    [
        ([], "0 choices instead of 1"),
        ([{"index": 0, "text": "a"}, {"index": 0, "text": "b"}], "2 choices instead of 1"),
        ([{"index": 0, "finish_reason": "stop"}], "neither a message nor a text"),
    ],
)
def test_other_choices_than_one_with_a_text_are_no_answer(server, choices, problem):
    server.behaviour = lambda body: web.json_response({"choices": choices})

    (completion,) = run(server, ["p"])

    assert completion.text is None
    assert problem in str(completion.error)


@pytest.mark.parametrize(
    ("status", "response"),
    [(400, '{"error": {"message": DEEP}}'), (200, '{"choices": [{"text": DEEP}]}')],
)
def test_a_response_that_is_deeper_than_python_writes_fails_its_row_alone(server, status, response):
    text = response.replace("DEEP", "[" * 1000 + "]" * 1000)
    server.behaviour = lambda body: (
        web.Response(text=text, status=status) if body["prompt"] == "p1" else echo(body)
    )

    completions = run(server, ["p0", "p1"])

    assert [c.text for c in completions] == ["p0!", None]
    assert completions[1].error == "The server's response is nested too deeply."


def test_answers_of_the_same_index_are_given_to_no_prompt(server):
    twice = [{"index": 0, "text": text, "finish_reason": "stop"} for text in ("a", "b")]
    server.behaviour = lambda body: (
        web.json_response({"choices": twice}) if isinstance(body["prompt"], list) else echo(body)
    )

    completions = run(server, ["p0", "p1"], batch_size=2)

    assert [c.text for c in completions] == ["p0!", "p1!"]


PARTS = [{"type": "text", "text": "4"}]


@pytest.mark.parametrize(
    "answered",
    [
        Streamed([{"choices": [{"index": 0, "delta": {"content": PARTS}}]}]),
        chosen(message={"content": PARTS}),
    ],
    ids=["streamed", "whole"],
)
def test_content_that_is_no_text_is_a_failed_row_and_no_empty_answer(server, answered):
    server.behaviour = lambda body: answered

    (completion,) = run(server, [({"role": "user", "content": "2 + 2?"},)])

    assert completion.text is None
    assert "sent list instead of text" in str(completion.error)


@pytest.mark.parametrize(
    ("unknown", "requests"), [("stream_options", 2), ("stream", 3)], ids=["options", "streaming"]
)
def test_a_server_that_does_not_know_streaming_is_asked_without(server, unknown, requests):
    server.behaviour = lambda body: (
        error(400, f"{unknown} is not supported") if body.get(unknown) else echo(body)
    )

    completions = run(server, ["p0", "p1"], max_concurrency=1)

    assert [c.text for c in completions] == ["p0!", "p1!"]
    assert len(server.bodies) == requests + 1


def test_a_request_that_always_fails_is_a_failed_row_if_others_succeed(server):
    server.behaviour = lambda body: error(500, "poison") if body["prompt"] == "p1" else echo(body)
    server.delay = 0.02

    completions = run(
        server, ["p1", *(f"q{n}" for n in range(40))], max_concurrency=2, max_retries=1
    )

    assert [c.key for c in completions if c.error] == [0]
    assert "poison" in str(completions[0].error)
    assert server.request_count("p1") == 2


def test_a_server_that_rejects_everything_ends_the_run(server):
    server.behaviour = lambda body: error(503, "overloaded")

    with pytest.raises(EngineError, match="failed 3 times: 503: overloaded"):
        run(server, ["p0", "p1"])


@pytest.mark.parametrize("status", [401, 403])
def test_a_rejected_key_ends_the_run_and_the_error_names_its_variable(server, status, monkeypatch):
    monkeypatch.setenv("MY_KEY", "very-secret")
    server.behaviour = lambda body: error(status)

    with pytest.raises(SettingsError, match="MY_KEY is rejected. The server says: no") as caught:
        run(server, ["p0", "p1"], api_key_env="MY_KEY")

    assert "very-secret" not in str(caught.value)
    assert server.headers[0]["Authorization"] == "Bearer very-secret"
    assert len(server.bodies) <= 2


@pytest.mark.parametrize("several", [False, True])
def test_a_password_in_an_address_is_refused_because_settings_are_stored(several: bool):
    address = "http://user:very-secret@127.0.0.1:9/v1"

    with pytest.raises(SettingsError, match="has a user or a password") as caught:
        OpenAIEngine.model_validate(
            {"more_base_urls": (address,)} if several else {"base_url": address}
        )

    assert "very-secret" not in str(caught.value)


def test_completion_prompts_share_a_request(server):
    completions = run(server, [f"p{n}" for n in range(10)], batch_size=4)

    assert [c.text for c in completions] == [f"p{n}!" for n in range(10)]
    lists = [b["prompt"] for b in server.bodies if isinstance(b["prompt"], list)]
    assert sorted(map(len, lists)) == [2, 4, 4]
    assert completions[0].prompt_tokens is None, "usage counts all prompts together"


def test_sampled_prompts_do_not_share_a_request(server):
    run(server, ["a", "b"], batch_size=4, sampling=SamplingParams(temperature=1, seed=5))

    assert [body["seed"] for body in server.bodies] == [5, 5]


def test_a_server_that_rejects_lists_gets_one_prompt_per_request(server):
    server.behaviour = lambda body: error(400) if isinstance(body["prompt"], list) else echo(body)

    completions = run(server, [f"p{n}" for n in range(40)], batch_size=2, max_concurrency=1)

    assert [c.text for c in completions] == [f"p{n}!" for n in range(40)]
    assert sum(isinstance(body["prompt"], list) for body in server.bodies) < 20


def test_a_rejected_request_is_a_failed_row_and_not_retried(server):
    server.behaviour = lambda body: error(422, "too long") if body["prompt"] == "p1" else echo(body)

    completions = run(server, ["p0", "p1", "p2"])

    assert [c.text for c in completions] == ["p0!", None, "p2!"]
    assert "(422): too long" in str(completions[1].error)
    assert server.request_count("p1") == 1


def test_a_bad_prompt_does_not_fail_the_prompts_in_the_same_request(server):
    server.behaviour = lambda body: error(400, "bad") if "p1" in body["prompt"] else echo(body)

    completions = run(server, ["p0", "p1", "p2", "p3"], batch_size=4)

    assert [c.text for c in completions] == ["p0!", None, "p2!", "p3!"]


def test_reasoning_is_stored_separately(server):
    message = {"content": "4", "reasoning_content": "2 and 2"}
    server.behaviour = lambda body: chosen(message=message)

    (completion,) = run(server, [({"role": "user", "content": "2+2?"},)])

    assert (completion.text, completion.reasoning) == ("4", "2 and 2")
    assert completion.prompt_kind == "messages"
    assert completion.prompt == '[{"role":"user","content":"2+2?"}]'
    assert server.bodies[0]["messages"] == [{"role": "user", "content": "2+2?"}]


def reasoned(reasoning: str, text: str) -> Behaviour:
    """A model that writes reasoning and text, on a server that applies stop texts to all of it, as vLLM's does."""

    def behaviour(body: dict) -> web.Response:
        written = [reasoning, text]
        for part, content in enumerate(written):
            found = [place for stop in body.get("stop", []) if (place := content.find(stop)) >= 0]
            if found:
                written[part:] = [content[: min(found)], ""][: 2 - part]
                break
        return chosen(message={"reasoning_content": written[0], "content": written[1] or None})

    return behaviour


def test_a_stop_text_ends_the_answer_and_not_the_reasoning_of_a_server(server):
    server.behaviour = reasoned("a\n\nQ: b", "\n\n4.\n\nQ: and?")
    asked = [({"role": "user", "content": question},) for question in ("2+2?", "1+3?")]
    stops = SamplingParams(max_tokens=64, stop=("\n\n", "Q:"))

    completions = run(server, asked, sampling=stops, max_concurrency=1)

    for completion in completions:
        assert (completion.reasoning, completion.text) == ("a\n\nQ: b", "\n\n4.")
        assert (completion.finish_reason, completion.reasoning_open) == ("stop", False)
    assert ["stop" in body for body in server.bodies] == [True, False, False]


def test_stop_texts_that_do_not_meet_the_reasoning_are_left_to_the_server(server):
    server.behaviour = reasoned("2 and 2", "4. Next: 5")

    stops = SamplingParams(max_tokens=64, stop=("Next",))
    (completion,) = run(server, [({"role": "user", "content": "2+2?"},)], sampling=stops)

    assert (completion.reasoning, completion.text) == ("2 and 2", "4. ")
    assert [body["stop"] for body in server.bodies] == [["Next"]]


def test_a_stream_can_be_closed_early(server):
    server.delay = 0.02
    taken = []

    def requests() -> Iterator[Request]:
        for key in range(10_000):
            taken.append(key)
            yield Request(key, f"p{key}", SAMPLING)

    with opened(server, max_concurrency=2) as client:
        stream = client.generate(requests())
        next(stream)
        stream.close()
        again = [c for batch in client.generate([Request(0, "again", SAMPLING)]) for c in batch]

    assert [c.text for c in again] == ["again!"]
    assert len(taken) < 20, "requests are taken lazily"


CHAT = ({"role": "user", "content": "A or B?"},)


def rank_chat(server: Misbehaving, **arguments: bool) -> list[Completion]:
    request = Request(0, CHAT, SAMPLING, labels=("A", "B"), template_arguments=arguments)
    with opened(server, model_revision="1", max_retries=0) as client:
        return [c for batch in client.generate([request]) for c in batch]


def top(body: dict) -> web.Response:
    tops = [{"token": token, "logprob": -1.0} for token in "AB"]
    logprobs = {"content": [{"token": "A", "logprob": -1.0, "top_logprobs": tops}]}
    return chosen(message={"content": "A"}, logprobs=logprobs)


def test_labels_after_a_thought_that_vllms_server_opens_are_refused(server):
    server.owner, server.behaviour = "vllm", top
    server.rendered = ("<|im_start|>", "assistant", "Ċ", "<think>", "Ċ")

    with pytest.raises(SettingsError, match="chat template opens a thought"):
        rank_chat(server, enable_thinking=False)

    assert server.asked["chat_template_kwargs"] == {"enable_thinking": False}
    assert server.asked["add_generation_prompt"] is True
    assert server.bodies == []


@pytest.mark.parametrize(
    ("owner", "rendered"),
    [("vllm", ("<think>", "ĊĊ", "</think>", "ĊĊ")), ("vllm", None), (None, ("<think>",))],
)
def test_other_labels_in_a_chat_are_ranked(server, owner, rendered):
    server.owner, server.rendered, server.behaviour = owner, rendered, top

    (ranked,) = rank_chat(server)

    assert ranked.label_logprobs == (-1.0, -1.0)


def test_labels_that_are_not_among_the_likeliest_tokens_are_read_from_an_echo(server):
    def behaviour(body: dict) -> web.Response:
        if not body.get("echo"):
            return likeliest({" A": -0.5})
        logprobs = [
            {
                "tokens": ["<s>", "p", " lab", label[-1], " gen"],
                "token_logprobs": [None, -9.0, -1.0, value, -7.0],
            }
            for label, value in zip(["1", "2"], [-0.25, -2.0], strict=True)
        ]
        return web.json_response(
            {"choices": [{"index": i, "logprobs": p} for i, p in enumerate(logprobs)]}
        )

    server.behaviour = behaviour

    (completion,) = rank(server, "p", (" lab1", " lab2"))

    assert completion.label_logprobs == (-1.25, -3.0)
    assert completion.label_method == "per_choice"


def test_a_row_fails_if_the_server_can_neither_rank_nor_echo(server):
    server.behaviour = lambda body: (
        error(400, "echo is not supported") if body.get("echo") else likeliest({" A": -0.5})
    )

    (completion,) = rank(server, "p", (" A", " B"))

    assert completion.label_logprobs is None
    assert "echo is not supported" in str(completion.error)
    assert "[' A', ' B']" in str(completion.error)


def test_labels_are_read_from_the_likeliest_tokens_fewer_if_the_server_allows_fewer(server):
    server.behaviour = lambda body: (
        error(400, "logprobs must be at most 5")
        if body["logprobs"] > 5
        else likeliest({" A": -1.0, " B": -2.0, " x": -4.0})
    )

    (completion,) = rank(server, "p", (" A", " B"))

    assert (completion.label_logprobs, completion.text) == ((-1.0, -2.0), None)
    assert completion.label_method == "single_token"


def rank(server: Misbehaving, prompt: str, labels: tuple[str, ...]) -> list[Completion]:
    with opened(server, max_retries=0) as client:
        return [c for b in client.generate([Request(0, prompt, SAMPLING, labels)]) for c in b]


def likeliest(tops: dict[str, float]) -> web.Response:
    """Response to a ranking: the likeliest tokens."""
    return chosen(text=" A", logprobs={"top_logprobs": [tops]})


def test_truncation_is_refused_because_only_the_server_has_the_tokenizer(server):
    engine = OpenAIEngine(base_url=server.url)

    with pytest.raises(SettingsError, match="truncate"):
        OpenAIClient(engine, engine.resolve("small"), rendering=PromptRendering(truncate=True))


@pytest.mark.parametrize(
    "respond",
    [
        lambda _: web.Response(body=b" " * (32 << 20), content_type="application/json"),
        lambda _: Streamed(pieces(*["A" * (1 << 20)] * 32)),
        lambda _: web.Response(
            body=gzip.compress(b" " * (1 << 26)), headers={"Content-Encoding": "gzip"}
        ),
    ],
    ids=["a long body", "a long stream", "a packed body"],
)
def test_no_more_is_read_than_was_asked_for(server, respond):
    server.behaviour = respond
    completions = run(server, ["p"])
    refusals = ("more than was asked", "compressed")
    assert any(said in str(completions[0].error) for said in refusals)


@pytest.mark.parametrize(
    "headers",
    [{"X": "A" * (1 << 20)}, {f"X-{number}": "A" * 100 for number in range(100_000)}],
    ids=["long", "many"],
)
def test_headers_of_megabytes_are_no_response(server, headers):
    server.behaviour = lambda _: web.Response(headers=headers)
    with pytest.raises(EngineError, match="the response is not valid HTTP"):
        run(server, ["p"], max_retries=0)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_an_error_that_names_the_place_and_nothing_of_it(server, status):
    with misbehaving_server() as other:
        there = {"Location": f"{other.url}/internal"}
        server.behaviour = lambda _: web.Response(status=status, headers=there)
        with pytest.raises(SettingsError, match=f"redirects to {other.url.removesuffix('/v1')}"):
            run(server, ["p"])
        assert other.bodies == []


def test_a_page_that_is_no_error_of_the_api_is_not_repeated(server):
    server.behaviour = lambda _: web.Response(status=400, text="SECRET-INTERNAL-TOKEN")
    (completion,) = run(server, ["p"])
    assert "SECRET" not in str(completion.error)
    assert "21 bytes" in str(completion.error)


def test_vllm_only_sampling_params_without_effect_are_not_sent_to_other_servers():
    sampling = SamplingParams(top_k=0, min_p=0.1, temperature=0.7, seed=9, stop=("x",))
    usual = {"top_p": 1.0, "max_tokens": 512, "presence_penalty": 0.0, "frequency_penalty": 0.0}

    body = sampling_body(sampling, is_vllm=False)

    assert body == {"temperature": 0.7, "min_p": 0.1, "seed": 9, "stop": ["x"], **usual}
    assert sampling_body(sampling, is_vllm=True)["top_k"] == 0


def test_an_image_is_sent_as_its_bytes_where_its_mark_stands_and_stored_as_the_mark():
    image, other = read_image(file_of("JPEG")), read_image(file_of("PNG"))
    messages = (
        {"role": "system", "content": f"Be brief. {other.mark} is no image of the request."},
        {"role": "user", "content": f"Before {image.mark} after"},
    )
    request = Request(0, messages, SAMPLING, images=(image,))

    [system, user] = messages_body(request)

    data = base64.b64encode(image.content).decode()
    assert system == messages[0]
    assert user["content"] == [
        {"type": "text", "text": "Before "},
        {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{data}"}},
        {"type": "text", "text": " after"},
    ]
    assert json.loads(prompt_fields(request)["prompt"]) == list(messages)


TOOL = {"type": "function", "function": {"name": "play", "parameters": {"type": "object"}}}


def with_tools(server: Misbehaving, *, tools: bool = True) -> Completion:
    """Ask in a chat, with a function to call."""
    messages = ({"role": "user", "content": "Play Abba."},)
    request = Request(0, messages, SAMPLING, tools=(TOOL,) if tools else ())
    with opened(server) as client:
        [[completion]] = client.generate([request])
    return completion


def said(calls: object) -> Behaviour:
    message = {"role": "assistant", "content": "Yes.", "tool_calls": calls}
    return lambda _: chosen(message=message)


def test_tools_are_sent_and_the_calls_of_a_message_are_read(server):
    server.behaviour = said([{"id": "1", "function": {"name": "play", "arguments": '{"n": 1}'}}])
    completion = with_tools(server)

    assert server.bodies[-1]["tools"] == [TOOL]
    assert completion.text == "Yes."
    assert json.loads(completion.tool_calls) == [{"name": "play", "arguments": {"n": 1}}]
    server.behaviour = said(None)
    assert with_tools(server).tool_calls == "[]"
    assert with_tools(server, tools=False).tool_calls is None
    assert "tools" not in server.bodies[-1]


@pytest.mark.parametrize("calls", ["play", [7], [{"function": {}}], [{"function": {"name": 7}}]])
def test_what_is_no_call_is_refused(calls):
    with pytest.raises(ValueError, match="instead of calls of functions"):
        tool_calls({"tool_calls": calls})
