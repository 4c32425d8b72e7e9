"""One evaluation, several servers: who gets the next request, and what a server costs that goes away."""

import gc
import time
from collections.abc import Iterator
from typing import Any

import pytest

from regrade.cli.run import EvaluateOptions
from regrade.engines.base import PromptRendering
from regrade.engines.openai import OpenAIEngine
from regrade.engines.openai_api.addresses import REST_SECONDS, Addresses
from regrade.engines.openai_api.client import OpenAIClient
from regrade.records import Completion, Request
from regrade.settings.errors import EngineError, SettingsError
from tests.engines.openai_api.test_client import (
    SAMPLING,
    Misbehaving,
    error,
    failing,
    misbehaving_server,
)

# A test's server that goes away leaves connections that it was just accepting, for the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def servers() -> Iterator[tuple[Misbehaving, Misbehaving]]:
    gc.freeze()  # collecting looks at what comes from here on
    with misbehaving_server() as one, misbehaving_server() as other:
        one.root = other.root = "/models/small"
        yield one, other
    gc.collect()  # while the mark above holds


def engine_of(*servers: Misbehaving, **settings: object) -> OpenAIEngine:
    one, *others = (server.url for server in servers)
    return OpenAIEngine(base_url=one, more_base_urls=others, **{"max_retries": 1, **settings})


def run(*servers: Misbehaving, n: int = 40, meanwhile=None, **settings: object) -> list[Completion]:
    engine = engine_of(*servers, **settings)
    client = OpenAIClient(engine, engine.resolve("small"), rendering=PromptRendering())
    requests = [Request(key, f"{key}", SAMPLING) for key in range(n)]
    done: list[Completion] = []
    with client:
        for batch in client.generate(requests):
            done += batch
            if meanwhile is not None:
                meanwhile(len(done))
    return sorted(done, key=lambda completion: completion.key)


def assert_answered(done: list[Completion], n: int = 40) -> None:
    assert [c.key for c in done] == list(range(n))
    assert [c.error for c in done] == [None] * n
    assert [c.text for c in done] == [f"{key}!" for key in range(n)]


def test_requests_are_divided_between_the_servers(servers: tuple[Misbehaving, Misbehaving]):
    for server in servers:
        server.delay = 0.02
    assert_answered(run(*servers, max_concurrency=8))
    assert [server.most_in_flight for server in servers] == [4, 4]
    assert sum(len(server.bodies) for server in servers) == 40


def test_a_faster_server_gets_more(servers: tuple[Misbehaving, Misbehaving]):
    slow, fast = servers
    slow.delay, fast.delay = 0.2, 0.01
    assert_answered(run(*servers, max_concurrency=4))
    assert len(fast.bodies) > 2 * len(slow.bodies)


def test_a_server_that_goes_away_in_the_middle_costs_no_answer(
    servers: tuple[Misbehaving, Misbehaving], caplog: pytest.LogCaptureFixture
):
    one, other = servers
    one.delay = other.delay = 0.02
    gone = iter([one.go_away])
    started = time.monotonic()

    done = run(*servers, max_concurrency=8, meanwhile=lambda n: n >= 10 and next(gone, bool)())

    assert_answered(done)
    assert len(one.bodies) < len(other.bodies)
    assert time.monotonic() - started < 15
    (warning,) = [r.message for r in caplog.records if "rests" in r.message]
    assert one.url in warning


def test_a_server_that_fails_quickly_does_not_draw_all_requests(
    servers: tuple[Misbehaving, Misbehaving],
):
    broken, working = servers
    broken.behaviour = lambda body: error(500)
    working.delay = 0.01
    assert_answered(run(*servers, max_concurrency=4))
    assert len(broken.bodies) <= 4
    assert len(working.bodies) == 40


def test_a_server_that_comes_back_gets_requests_again(
    servers: tuple[Misbehaving, Misbehaving], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("regrade.engines.openai_api.addresses.REST_SECONDS", 0.1)
    one, other = servers
    one.behaviour = failing(1, lambda: error(503))
    one.delay = other.delay = 0.02
    assert_answered(run(*servers, max_concurrency=2))
    assert len(one.bodies) > 3


def test_the_run_ends_when_all_servers_are_gone(servers: tuple[Misbehaving, Misbehaving]):
    def go(n: int) -> None:
        for server in servers:
            server.go_away()

    with pytest.raises(EngineError) as raised:
        # A stand-in that goes away may leave a connection that it was just accepting open; a dead process does not.
        run(*servers, max_concurrency=4, meanwhile=go, max_retries=0, timeout=5)
    for server in servers:
        assert server.url in str(raised.value)


def test_a_server_that_is_not_there_at_the_start_is_left_out(
    servers: tuple[Misbehaving, Misbehaving], caplog: pytest.LogCaptureFixture
):
    one, other = servers
    one.go_away()
    assert_answered(run(*servers))
    assert "left out" in caplog.text
    assert one.url in caplog.text
    assert len(other.bodies) == 40
    other.go_away()
    with pytest.raises(SettingsError, match="No server answers"):
        run(*servers)


def test_servers_with_other_weights_are_refused(servers: tuple[Misbehaving, Misbehaving]):
    servers[1].root = "/models/another"
    with pytest.raises(SettingsError, match="different weights of 'small'.*engine.model_revision"):
        run(*servers)
    assert_answered(run(*servers, model_revision="step-500"))


def test_an_address_that_is_given_twice_counts_once():
    url = "http://127.0.0.1:9/v1"
    assert OpenAIEngine(base_url=url, more_base_urls=(f"{url}/", url)).base_urls == (url,)


def test_the_option_may_be_given_several_times():
    def engine_at(*urls: str) -> Any:
        options = EvaluateOptions(model=("small",), engine_kind="openai", engine_base_url=urls)
        return options.parameters()["engine"]

    urls = ("http://a/v1", "http://b/v1", "http://c/v1")
    assert OpenAIEngine.model_validate(engine_at(*urls)).base_urls == urls
    assert engine_at(urls[0]) == {"kind": "openai", "base_url": urls[0]}


def test_a_resting_address_is_the_last_choice():
    addresses = Addresses(["http://a/v1", "http://b/v1"])
    a = addresses.next()
    assert a is addresses.first
    addresses.rest(a, "gone")
    b = addresses.next()
    assert b is not None
    assert b.url == "http://b/v1"
    b.in_flight = 100
    assert addresses.next() is b
    addresses.rest(b, "gone", seconds=2 * REST_SECONDS)
    assert addresses.next() is a  # its rest ends first
    assert addresses.next([a, b]) is None


def test_requests_that_are_withdrawn_are_cancelled(servers: tuple[Misbehaving, Misbehaving]):
    one, other = servers
    one.delay = other.delay = 0.05

    class Requests(list[Request]):
        withdrawn: frozenset[int] = frozenset()

        def __iter__(self) -> Iterator[Request]:
            return (r for r in super().__iter__() if r.key not in self.withdrawn)

    requests = Requests(Request(key, f"{key}", SAMPLING) for key in range(40))
    engine = engine_of(*servers, max_concurrency=4)
    done: list[int] = []
    with OpenAIClient(engine, engine.resolve("small"), rendering=PromptRendering()) as client:
        for batch in client.generate(requests):
            done += [completion.key for completion in batch]
            if len(done) == 4:
                requests.withdrawn = frozenset(range(40))
    assert len(done) < 15
    assert sum(len(server.bodies) for server in servers) < 15
