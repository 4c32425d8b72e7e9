"""Stored answers are read with the tokens that their model gave, and with the log-probabilities of transformers."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from regrade.engines.base import Engine, SwitchingEngine
from regrade.engines.vllm_process.continuations import (
    NO_TOKENS,
    OTHER_PROMPT,
    OTHER_TOKENS,
    answer_tokens,
)
from regrade.records import Completion, Request, StoredAnswer
from regrade.settings import SamplingParams
from tests.engine_fixtures import FAST
from tests.engines.vllm_process.asking import ask, opened
from tests.engines.vllm_process.test_labels import byte_level

CHATS = [({"role": "user", "content": f"What is {n} plus 3?"},) for n in range(6)]
SAMPLED = SamplingParams(max_tokens=24, temperature=0.8)


def asked(sampling: SamplingParams = SAMPLED) -> list[Request]:
    seeded = [sampling.model_copy(update={"seed": n}) for n in range(len(CHATS))]
    return [Request(n, chat, seeded[n]) for n, chat in enumerate(CHATS)]


def reading(answers: Sequence[Completion], **changes: Any) -> list[Request]:
    """Requests that read answers."""
    requests = []
    for answer in answers:
        stored = StoredAnswer(
            text=str(answer.text),
            tokens=answer.token_ids,
            rendered=True,
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
            stops=False,
        )
        stored = replace(stored, **changes)
        requests.append(
            Request(answer.key, answer.prompt, SamplingParams(max_tokens=1), stored=stored)
        )
    return requests


@pytest.fixture(scope="module")
def answers(vllm_engine: Engine) -> list[Completion]:
    return ask(vllm_engine, asked())


@pytest.mark.vllm
def test_an_answer_has_the_tokens_that_the_model_gave_with_those_of_its_end(
    vllm_engine: Engine, answers: list[Completion], demo_model: Path
):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(demo_model)
    stopped = ask(vllm_engine, asked(SAMPLED.model_copy(update={"stop": (" ",)})))

    for answer in (*answers, *stopped):
        assert answer.token_ids is not None
        assert len(answer.token_ids) == answer.completion_tokens
        decoded = tokenizer.decode(answer.token_ids, skip_special_tokens=True)
        assert decoded.startswith(str(answer.text))
    assert any(a.token_ids and a.token_ids[-1] == tokenizer.eos_token_id for a in answers)
    assert any(" " in tokenizer.decode(a.token_ids or ()) for a in stopped)


@pytest.mark.vllm
def test_a_stored_answer_has_the_log_probabilities_of_transformers(
    vllm_engine: Engine, answers: list[Completion], demo_model: Path
):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(demo_model)
    model = AutoModelForCausalLM.from_pretrained(demo_model, dtype=torch.float32)

    read = ask(vllm_engine, reading(answers))

    differences = []
    for answer, found in zip(answers, read, strict=True):
        assert found.error is None
        assert found.token_ids == answer.token_ids
        prompt = tokenizer(answer.prompt, add_special_tokens=False)["input_ids"]
        with torch.no_grad():
            logits = model(torch.tensor([[*prompt, *(answer.token_ids or ())]])).logits[0]
        expected = torch.log_softmax(logits, -1)[len(prompt) - 1 : -1]
        for place, token in enumerate(answer.token_ids or ()):
            assert found.token_logprobs is not None
            differences.append(abs(found.token_logprobs[place] - expected[place, token].item()))
            assert found.token_is_greedy is not None
            assert found.token_is_greedy[place] == (expected[place].argmax().item() == token)
        assert found.label_logprobs == (pytest.approx(sum(found.token_logprobs or ())),)
    assert max(differences) < 1e-3
    assert not all(all(found.token_is_greedy or ()) for found in read)  # the answers are sampled


@pytest.mark.vllm
def test_an_answer_whose_tokens_were_not_stored_is_tokenised_again(
    vllm_engine: Engine, answers: list[Completion]
):
    read = ask(vllm_engine, reading(answers, tokens=None))

    for answer, found in zip(answers, read, strict=True):
        if found.error is None:
            assert found.token_ids is not None
            assert (answer.token_ids or ())[: len(found.token_ids)] == found.token_ids
        else:  # a sampled answer can have tokens that no tokeniser gives
            assert found.error == NO_TOKENS
            assert found.error_permanent
    assert any(found.error is None for found in read)


@pytest.mark.vllm
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"prompt_tokens": 3}, OTHER_PROMPT),
        ({"text": "Another answer."}, OTHER_TOKENS),
        ({"text": "Another answer.", "tokens": None}, NO_TOKENS),
    ],
)
def test_an_answer_that_is_not_what_its_tokens_say_is_left_out(
    vllm_engine: Engine, answers: list[Completion], changes: dict[str, Any], error: str
):
    read = ask(vllm_engine, reading(answers, **changes))

    assert {(found.error, found.error_permanent) for found in read} == {(error, True)}


def tokens_of(text: str, **changes: Any) -> list[int] | str:
    tokenizer = byte_level()

    def encode(texts: Sequence[str]) -> list[list[int]]:
        return [tokenizer.encode(text).ids for text in texts]

    answer = asdict(StoredAnswer(text, None, False, None, None, False)) | changes
    functions = {"encode": encode, "encode_alone": encode, "decode": tokenizer.decode}
    _, tokens = answer_tokens("Question: what?\nAnswer:", answer, **functions)
    return tokens


def test_a_text_is_only_tokenised_again_if_the_number_of_its_tokens_fits() -> None:
    tokens = tokens_of(" A text")
    assert isinstance(tokens, list)
    count = len(tokens)

    assert tokens_of(" A text", completion_tokens=count) == tokens
    assert tokens_of(" A text", completion_tokens=count + 1) == tokens  # and one that is no text
    assert tokens_of(" A text", completion_tokens=count + 2) == NO_TOKENS
    assert tokens_of(" A text", completion_tokens=count + 2, stops=True) == tokens
    assert tokens_of(" A text", completion_tokens=count - 1, stops=True) == NO_TOKENS
    assert tokens_of("") == NO_TOKENS
    assert tokens_of(" A text", tokens=[*tokens, 0]) == [*tokens, 0]
    assert tokens_of("Another", tokens=tokens) == OTHER_TOKENS


def rewritten(model: Path, folder: Path, change: Callable[[Any], Any]) -> Path:
    """A copy of a model with changed weights, in float32."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(model, folder)
    for file in folder.glob("*.safetensors"):
        weights = {name: change(w.float()) for name, w in load_file(file).items()}
        save_file(weights, file, metadata={"format": "pt"})
    return folder


def distance(left: list[Completion], right: list[Completion]) -> tuple[float, float]:
    """Mean absolute difference of log-probabilities, and share of the tokens that are not the first choice of the right."""
    tokens = [
        (abs(a - b), not first)
        for one, two in zip(left, right, strict=True)
        for a, b, first in zip(
            one.token_logprobs or (),
            two.token_logprobs or (),
            two.token_is_greedy or (),
            strict=True,
        )
    ]
    differences, others = zip(*tokens, strict=True)
    return sum(differences) / len(tokens), sum(others) / len(tokens)


@pytest.mark.vllm
@pytest.mark.slow
def test_the_further_the_weights_are_away_the_larger_is_the_difference(
    demo_model: Path, tmp_path: Path
):
    import torch

    def noisy(share: float) -> Callable[[Any], Any]:
        random = torch.Generator().manual_seed(0)
        return lambda w: w + share * w.std() * torch.randn(w.shape, generator=random)

    changes = {
        "bfloat16": lambda w: w.to(torch.bfloat16).float(),
        "one": noisy(0.01),
        "five": noisy(0.05),
    }
    model = rewritten(demo_model, tmp_path / "float32", noisy(0.002))  # its weights are bfloat16
    others = [rewritten(model, tmp_path / name, change) for name, change in changes.items()]
    greedy = SamplingParams(max_tokens=48)
    chats = [
        ({"role": "user", "content": f"Ana has {n} apples and buys {n + 3} more. How many?"},)
        for n in range(40)
    ]
    found: list[tuple[float, float]] = []
    with opened(model, tmp_path / "vllm.log") as engine:
        assert isinstance(engine, SwitchingEngine)
        answers = ask(engine, [Request(n, chat, greedy) for n, chat in enumerate(chats)])
        own = ask(engine, reading(answers))
        found.append(distance(own, ask(engine, reading(answers))))
        for other in others:
            engine.switch(FAST.resolve(str(other)), ())
            found.append(distance(own, ask(engine, reading(answers))))

    itself, rounded, one, five = found
    assert itself[0] < 1e-5
    assert itself[1] == 0  # the answers are greedy
    assert itself[0] < rounded[0] < one[0] < five[0]
    assert itself[1] <= rounded[1] <= one[1] < five[1]
