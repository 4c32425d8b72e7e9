"""Real vLLM with a model whose chat template opens a thought."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from regrade.engines.base import Engine
from regrade.records import Completion, Request, Structure
from regrade.settings import SamplingParams
from tests.engine_fixtures import FAST
from tests.engines.vllm_process.asking import ask, opened
from tests.reasoning_model import reasoning_model

pytestmark = [pytest.mark.vllm, pytest.mark.slow]
QUESTION = ({"role": "user", "content": "What is 2 plus 3?"},)
LONG = Request(0, QUESTION, SamplingParams(max_tokens=24))
BUDGET = replace(LONG, key=1, sampling=SamplingParams(max_tokens=24, thinking_token_budget=3))
SWITCHED_OFF = replace(LONG, key=2, template_arguments={"enable_thinking": False})
RANKED = Request(3, QUESTION, SamplingParams(max_tokens=1), labels=("A", "B"))
RANKED_OFF = replace(RANKED, key=4, template_arguments={"enable_thinking": False})
FORM = Structure({}, choice=("yes", "not attempted"))
FORMED = replace(BUDGET, key=5, structure=FORM, reasons=True)
FORMED_OFF = replace(SWITCHED_OFF, key=6, structure=FORM)
REQUESTS = [LONG, BUDGET, SWITCHED_OFF, RANKED, RANKED_OFF, FORMED, FORMED_OFF]


@pytest.fixture(scope="module")
def engine(demo_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("reasoning")
    model = reasoning_model(demo_model, folder / "model")
    # The engine learns from the planned requests that there is a budget, and a form after the thought.
    with opened(model, folder / "vllm.log", FAST, [BUDGET, FORMED]) as engine:
        yield engine


@pytest.fixture(scope="module")
def answers(engine: Engine) -> dict[int, Completion]:
    return {answer.key: answer for answer in ask(engine, REQUESTS)}


def test_the_parser_is_the_models(engine: Engine):
    assert engine.info.reasoning_parser == "qwen3"


def test_a_thought_that_never_ends_leaves_no_text(answers: dict[int, Completion]):
    answer = answers[LONG.key]

    assert answer.prompt.endswith("<think>\n")
    assert (answer.text, answer.reasoning_open) == ("", True)
    assert answer.reasoning


def test_a_budget_ends_the_thought_and_the_answer_follows(answers: dict[int, Completion]):
    answer = answers[BUDGET.key]

    assert answer.reasoning
    assert answer.text
    assert answer.reasoning_open is False
    whole = str(answers[LONG.key].reasoning)
    assert whole.startswith(answer.reasoning)
    assert len(answer.reasoning) < len(whole)


def test_without_a_thought_all_is_the_answer(answers: dict[int, Completion]):
    answer = answers[SWITCHED_OFF.key]

    assert answer.prompt.endswith("</think>\n\n")
    assert answer.text
    assert (answer.reasoning, answer.reasoning_open) == (None, False)


def test_a_form_leaves_the_thought_free_and_binds_what_follows(answers: dict[int, Completion]):
    formed, free = answers[FORMED.key], answers[BUDGET.key]

    assert formed.reasoning == free.reasoning
    assert formed.text in FORM.choice
    assert answers[FORMED_OFF.key].text in FORM.choice
    assert answers[FORMED_OFF.key].reasoning is None


def test_a_stop_text_in_the_thought_does_not_end_the_answer(
    engine: Engine, answers: dict[int, Completion]
):
    expected = answers[BUDGET.key]
    thought, text = str(expected.reasoning), str(expected.text)
    in_thought, in_text = (
        BUDGET.sampling.model_copy(update={"stop": (part.strip()[-1],)}) for part in (thought, text)
    )

    stopped, thinking = ask(
        engine, [replace(BUDGET, sampling=in_thought), replace(LONG, sampling=in_text)]
    )[::-1]

    assert (stopped.reasoning, stopped.text) == (thought, text)
    assert thinking.text == text[: text.index(text.strip()[-1])]
    assert thinking.finish_reason == "stop"


def test_labels_are_not_ranked_after_an_open_thought(answers: dict[int, Completion]):
    refused, ranked = answers[RANKED.key], answers[RANKED_OFF.key]

    assert "opens a thought" in str(refused.error)
    assert refused.error_permanent
    assert ranked.label_logprobs is not None
    assert ranked.error is None
