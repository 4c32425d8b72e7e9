"""The engine `openai` against a real `vllm serve`."""

import asyncio
from collections.abc import Iterator
from typing import cast

import pytest

from regrade.engines.base import Engine, PromptRendering
from regrade.engines.openai import OpenAIEngine
from regrade.engines.openai_api.client import OpenAIClient
from regrade.engines.vllm_process.continuations import OTHER_PROMPT, OTHER_TOKENS
from regrade.records import Completion, Request
from regrade.settings import SamplingParams
from tests.engine_fixtures import SERVED_NAME
from tests.engines.vllm_process.test_stored_answers import asked, reading

pytestmark = pytest.mark.vllm
SAMPLING = SamplingParams(max_tokens=8)
QUESTION = "Question: What is 2 plus 3?\nA. 4\nB. 5\nC. 6\nD. 7\nAnswer:"
LABELS = (" A", " B", " C", " D")


@pytest.fixture(scope="module")
def engine(
    served_settings: OpenAIEngine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    settings = served_settings.model_copy(update={"batch_size": 8})
    with _open(settings, tmp_path_factory) as engine:
        yield engine


def _open(settings: OpenAIEngine, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return settings.open(
        settings.resolve(SERVED_NAME),
        requests=(),
        rendering=PromptRendering(),
        log=tmp_path_factory.mktemp("openai") / "log",
    )


def ask(engine: Engine, requests: list[Request]) -> list[Completion]:
    completions = [c for batch in engine.generate(requests) for c in batch]
    return sorted(completions, key=lambda completion: completion.key)


def test_info_comes_from_the_server(engine: Engine):
    assert engine.info.engine == "openai"
    assert engine.info.version
    assert engine.info.max_model_len == 512


def test_text_and_chat_equal_those_of_the_offline_engine(engine: Engine, vllm_engine: Engine):
    chat = ({"role": "user", "content": "What is 2 plus 3?"},)
    requests = [
        Request(key, prompt, SAMPLING) for key, prompt in enumerate(("Once", chat, QUESTION))
    ]

    served, offline = ask(engine, requests), ask(vllm_engine, requests)

    assert [c.text for c in served] == [c.text for c in offline]
    assert [c.finish_reason for c in served] == [c.finish_reason for c in offline]
    assert served[1].prompt_tokens == offline[1].prompt_tokens
    assert served[1].prompt_kind == "messages"


def test_the_client_and_the_server_measured_the_same_requests(engine: Engine):
    sampling = SamplingParams(max_tokens=32)
    answers = ask(engine, [Request(0, f"Once {'and again ' * 20}", sampling)])

    speed = cast("OpenAIClient", engine).measure()
    assert speed is not None
    assert speed.e2el is not None
    other = speed.other_side
    assert other is not None
    by = (speed.measured_by, other.by)
    assert (*by, speed.requests, other.requests) == ("client", "engine", 1, 1)
    assert other.e2el is not None
    assert other.ttft is not None
    assert 0 < other.ttft < other.e2el <= 1.05 * speed.e2el.mean + 0.05
    assert answers[0].completion_tokens == 32


@pytest.mark.slow
def test_labels_are_ranked_as_the_offline_engine_does(engine: Engine, vllm_engine: Engine):
    requests = [
        Request(k, QUESTION.replace("2 plus 3", f"{k} plus 4"), SAMPLING, LABELS) for k in range(6)
    ]

    served, offline = ask(engine, requests), ask(vllm_engine, requests)

    for by_server, by_engine in zip(served, offline, strict=True):
        assert by_server.error is None
        assert by_server.label_logprobs == pytest.approx(by_engine.label_logprobs, abs=1e-3)


@pytest.mark.slow
def test_labels_of_several_tokens_are_ranked_by_echo(engine: Engine, vllm_engine: Engine):
    request = Request(0, QUESTION, SAMPLING, (" A and more", " B", " no answer"))

    (served,), (offline,) = ask(engine, [request]), ask(vllm_engine, [request])

    assert served.label_method == offline.label_method == "per_choice"
    assert served.label_logprobs == pytest.approx(offline.label_logprobs, abs=1e-3)


@pytest.mark.parametrize("tokens", ["stored", "not stored"])
def test_stored_answers_are_read_as_by_the_offline_engine(
    engine: Engine, vllm_engine: Engine, tokens: str
):
    changes = {} if tokens == "stored" else {"tokens": None}
    requests = reading(ask(vllm_engine, asked()), **changes)

    served, offline = ask(engine, requests), ask(vllm_engine, requests)

    for by_server, by_engine in zip(served, offline, strict=True):
        for name in ("error", "error_permanent", "token_ids", "token_is_greedy", "prompt_tokens"):
            assert getattr(by_server, name) == getattr(by_engine, name)
        assert by_server.token_logprobs == pytest.approx(by_engine.token_logprobs, abs=1e-4)
        assert by_server.label_logprobs == pytest.approx(by_engine.label_logprobs, abs=1e-3)
    assert any(found.token_logprobs for found in served)


@pytest.mark.parametrize(
    ("changes", "error"),
    [({"prompt_tokens": 3}, OTHER_PROMPT), ({"text": "Another answer."}, OTHER_TOKENS)],
)
def test_an_answer_whose_tokens_are_others_on_the_server_is_left_out(
    engine: Engine, vllm_engine: Engine, changes: dict[str, object], error: str
):
    read = ask(engine, reading(ask(vllm_engine, asked()), **changes))

    assert {(found.error, found.error_permanent) for found in read} == {(error, True)}


def test_a_prompt_that_is_too_long_is_a_failed_row(engine: Engine):
    done, failed = ask(
        engine, [Request(0, "short", SAMPLING), Request(1, "word " * 2000, SAMPLING)]
    )

    assert done.error is None
    assert "400" in str(failed.error)
    assert "512" in str(failed.error)


@pytest.mark.slow
def test_the_server_tells_how_a_chat_ends(
    served_settings: OpenAIEngine, tmp_path_factory: pytest.TempPathFactory
):
    chat = ({"role": "user", "content": "What is 2 plus 3?"},)
    with _open(served_settings, tmp_path_factory) as engine:
        (ranked,) = ask(engine, [Request(0, chat, SAMPLING, labels=("A", "B"))])
        client = cast("OpenAIClient", engine)
        body = {"model": SERVED_NAME, "messages": [dict(message) for message in chat]}
        asking = client._server.prompt_ending(body)
        ending = asyncio.run_coroutine_threadsafe(asking, client._loop).result()

    assert str(ending).endswith("<|im_start|>assistant")
    assert "opens a thought" not in str(ranked.error)
