"""Settings of a run with a model that reasons: template arguments, sampling, and refusals."""

import logging
import tomllib
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from regrade.jobs.plan import Plan, make_plan
from regrade.jobs.sampling import with_sampling
from regrade.models.base import ResolvedModel
from regrade.models.chat_template import ChatTemplate, RenderedInCode
from regrade.records.specification import ModelIdentity, PromptIdentity
from regrade.settings import PromptSettings, SamplingParams, SamplingSettings
from regrade.settings.errors import SettingsError
from tests.models.test_chat_template import BUDGETED, BY_SYSTEM, HYBRID, OPENED, PLAIN
from tests.sums import MODEL, SERVER, Sums

GREEDY = SamplingParams(max_tokens=64, stop=("\n",))
"""Sampling that the benchmark sets."""
CARD = {"temperature": 0.7, "top_p": 0.8, "top_k": 20, "do_sample": True}


class Ranked(Sums):
    method = "rank"


class Completion(Sums):
    @property
    def prompt_identity(self) -> PromptIdentity:
        return super().prompt_identity.model_copy(update={"format": "completion"})


def model_with(template: str, model_type: str = "qwen3", **changes: Any) -> ResolvedModel:
    chosen = {"max_position_embeddings": 40_960, "generation_config": CARD, **changes}
    return replace(MODEL, chat_template=ChatTemplate(template, model_type), **chosen)


QWEN = model_with(HYBRID)
IN_CODE = replace(QWEN, chat_template=RenderedInCode())
BY_MODEL = SamplingSettings(defaults="model")
SWITCHED_ON = {"chat_template_args": ("enable_thinking=true",)}


def plan(
    model: ResolvedModel = QWEN,
    benchmark: Sums | None = None,
    sampling: SamplingSettings | None = None,
    **prompt: Any,
) -> Plan:
    return make_plan(
        benchmark or Sums(1),
        model,
        SERVER,
        sampling=sampling,
        prompt=PromptSettings(**prompt),
        repeats=1,
    )


def sampled(model: ResolvedModel = QWEN, *given: Any, **prompt: Any) -> SamplingParams:
    """Return the sampling of the plan of these."""
    chosen = plan(model, *given, **prompt).specification.sampling
    assert chosen is not None
    return chosen


def as_card(max_tokens: int) -> SamplingParams:
    """Return what the card of the model states."""
    return SamplingParams(temperature=0.7, top_p=0.8, top_k=20, max_tokens=max_tokens, stop=("\n",))


def test_a_model_that_reasons_gets_its_own_sampling_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.INFO, "regrade.plan")

    assert sampled() == as_card(32_768)
    (line,) = caplog.messages
    assert line.startswith(
        "sums: the model reasons before it answers: temperature 0.7, max_tokens 32,768"
    )
    assert "--sampling benchmark" in line


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"do_sample": True}, {"temperature": 1.0}),  # like gpt-oss
        ({"temperature": 0.6}, {"temperature": 0.6}),
        ({"temperature": 0.6, "top_k": -1}, {"temperature": 0.6}),
        ({"do_sample": False}, {"temperature": 0.6, "top_p": 0.95, "top_k": 20}),
        ({}, {"temperature": 0.6, "top_p": 0.95, "top_k": 20}),
    ],
)
def test_sampling_is_that_of_the_card_or_the_usual_one_and_never_a_mixture(
    config: Any, expected: Any
):
    chosen = sampled(model_with(HYBRID, generation_config=config))

    assert chosen == SamplingParams(**expected, max_tokens=32_768, stop=("\n",))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        # With reasoning switched off, the card decides, and the benchmark for a model that is not known.
        ({"thinking": "off"}, as_card(64)),
        ({"model": model_with(HYBRID, "another"), "thinking": "off"}, GREEDY),
        # A model that states nothing is sampled as the card of its family says.
        (
            {"model": model_with(PLAIN, "gpt_oss", generation_config=None)},
            SamplingParams(temperature=1.0, max_tokens=32_768, stop=("\n",)),
        ),
        # What is set by hand wins, also what asks for the sampling of any model.
        (
            {"sampling": SamplingSettings(temperature=0, max_tokens=99)},
            GREEDY.model_copy(update={"max_tokens": 99}),
        ),
        ({"sampling": SamplingSettings(defaults="benchmark")}, GREEDY),
        ({"model": model_with(PLAIN), "sampling": BY_MODEL}, as_card(64)),
        (
            {
                "model": model_with(PLAIN, generation_config={"do_sample": False}),
                "sampling": BY_MODEL,
            },
            GREEDY,
        ),
    ],
)
def test_sampling_is_that_of_the_hand_the_card_or_the_benchmark(
    given: dict[str, Any], expected: SamplingParams
):
    assert sampled(**given) == expected


class Competition(Sums):
    long_thoughts = True


@pytest.mark.parametrize(
    ("context", "usual", "long"),
    [
        (40_960, 32_768, 38_912),
        (262_144, 32_768, 81_920),
        (32_768, 24_576, 30_720),
        (512, 384, 384),
    ],
)
def test_an_answer_may_have_what_the_context_leaves_up_to_the_tokens_of_the_cards(
    context: int, usual: int, long: int
):
    model = model_with(HYBRID, max_position_embeddings=context)

    assert sampled(model).max_tokens == usual
    assert sampled(model, Competition(1)).max_tokens == long


def test_all_that_vllms_server_reads_of_the_generation_config_is_applied():
    penalties = {"repetition_penalty": 1.1, "presence_penalty": 1.5, "frequency_penalty": 0.2}
    stated = {**CARD, **penalties, "min_p": 0.1, "max_new_tokens": 2048}
    chosen = sampled(model_with(HYBRID, generation_config=stated))

    read = {name: value for name, value in stated.items() if name in SamplingParams.model_fields}
    assert chosen.model_dump().items() >= {**read, "max_tokens": 2048}.items()


def test_every_family_of_the_table_has_a_source_and_values_that_vllm_takes():
    table = tomllib.loads(files("regrade.models").joinpath("cards.toml").read_text())["family"]
    types = [kind for family in table for kind in family["types"]]

    assert len(types) == len(set(types))
    for family in table:
        assert family["source"].startswith("https://")
        assert family.keys() & {"on", "off"}
        for mode in ("on", "off"):
            SamplingParams.model_validate(family.get(mode, {}))


@pytest.mark.parametrize(
    ("asked", "before", "answer_set_id"),
    [({}, as_card(30_720), "9ebf23916102996a"), ({"thinking": "off"}, GREEDY, "dbf6e5ec3b3c626c")],
)
def test_answers_with_the_earlier_defaults_are_found_and_continued_under_their_ids(
    asked: dict[str, Any], before: SamplingParams, answer_set_id: str
):
    """Ids by commit 04fb4f9."""
    now = plan(benchmark=Competition(1), **asked)

    assert [known.sampling for known in now.earlier] == [before]
    assert now.earlier[0].answer_set_id != now.specification.answer_set_id
    assert [known.answer_set_id for known in plan(**asked).earlier] == [answer_set_id]
    by_hand = SamplingSettings(temperature=0.1, top_p=1.0, top_k=0, max_tokens=5)
    assert plan(sampling=by_hand).earlier == ()


def test_what_a_dataset_sets_is_set_by_hand():
    dataset = SamplingParams(max_tokens=96, stop=("x",))
    job = SamplingSettings(stop=("y",))

    both = with_sampling(job, dataset)
    alone = with_sampling(None, dataset)

    assert both.model_dump(exclude_unset=True) == {"max_tokens": 96, "stop": ("y",)}
    chosen = sampled(sampling=alone)
    assert chosen == as_card(96).model_copy(update={"stop": ("x",)})


def test_the_id_is_that_of_the_template_arguments():
    off = plan(thinking="off").specification
    by_hand = plan(chat_template_args=("enable_thinking=false",)).specification

    assert off.prompt.chat_template_args == {"enable_thinking": False}
    assert off.answer_set_id == by_hand.answer_set_id
    assert plan(thinking="on").specification.answer_set_id == plan().specification.answer_set_id
    assert off.answer_set_id != plan().specification.answer_set_id


def test_requests_carry_the_arguments():
    (request,) = plan(thinking="off").requests([(Sums(1).samples()[0], 0)])

    assert request.template_arguments == {"enable_thinking": False}


def test_letters_are_ranked_with_reasoning_switched_off(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "regrade.plan")

    specification = plan(benchmark=Ranked(1)).specification

    assert specification.prompt.chat_template_args == {"enable_thinking": False}
    assert specification.prompt.labels == "turn"
    assert "reasoning is switched off" in caplog.text


def test_a_system_message_that_switches_reasoning_off_is_read():
    model = model_with(BY_SYSTEM)

    assert plan(model).reasons
    assert not plan(model, system="/no_think").reasons
    assert plan(model, Ranked(1), system="/no_think").specification.prompt.labels == "turn"


def test_completion_prompts_have_no_template(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "regrade.plan")

    specification = plan(benchmark=Completion(1), thinking="off").specification

    assert specification.prompt.chat_template_args == {}
    assert specification.prompt.labels == "appended"
    assert specification.sampling == GREEDY
    assert "no effect on completion prompts" in caplog.text


def test_a_budget_is_told_to_a_template_that_can_state_it():
    budget = SamplingSettings(thinking_token_budget=512)

    told = plan(model_with(BUDGETED), sampling=budget).specification
    enforced = plan(sampling=budget).specification

    assert told.prompt.chat_template_args == {"thinking_budget": 512}
    assert enforced.prompt.chat_template_args == {}
    for specification in (told, enforced):
        assert specification.sampling is not None
        assert specification.sampling.thinking_token_budget == 512
        assert specification.answer_set_id != plan().specification.answer_set_id


def served(owner: str | None = "vllm") -> ResolvedModel:
    identity = ModelIdentity(name="m", kind="served", revision="r")
    return ResolvedModel(identity, "m", served_by=owner)


def test_only_a_server_knows_its_template():
    assert plan(served()).specification.prompt.chat_template_args == {}
    off = plan(served(), thinking="off").specification.prompt.chat_template_args
    assert off == {"enable_thinking": False, "thinking": False}


def test_vllms_server_ranks_letters_without_reasoning():
    ranked = plan(served(), Ranked(1)).specification.prompt
    elsewhere = plan(served(None), Ranked(1)).specification.prompt

    assert ranked.chat_template_args == {"enable_thinking": False, "thinking": False}
    assert elsewhere.chat_template_args == {}  # it may refuse fields that it does not know


@pytest.mark.parametrize(
    ("given", "says"),
    [
        *(
            (
                {"model": model_with(PLAIN, generation_config=config), "sampling": BY_MODEL},
                "has no 'generation_config.json' with sampling params",
            )
            for config in (None, {"eos_token_id": 2})
        ),
        (
            {"model": model_with(HYBRID, generation_config={"temperature": 7})},
            "`temperature` should be 2 or less, not 7",
        ),
        ({"model": served(), "sampling": BY_MODEL}, "only its server knows"),
        (SWITCHED_ON | {"thinking": "off"}, "both switch the reasoning"),
        (
            {"sampling": SamplingSettings(thinking_token_budget=5), "thinking": "off"},
            "limits reasoning that `prompt.thinking=off` switches off",
        ),
        ({"model": IN_CODE, "thinking": "on"}, "cannot switch reasoning on"),
        *(
            ({"benchmark": Ranked(1)} | open_thought, "ranks letters right after the prompt")
            for open_thought in ({"model": model_with(OPENED)}, {"thinking": "on"}, SWITCHED_ON)
        ),
        (
            {"model": model_with(BY_SYSTEM), "benchmark": Ranked(1)},
            "Use `prompt.system=/no_think`, or `prompt.format=completion`",
        ),
    ],
)
def test_what_a_model_cannot_do_or_two_settings_contradict_is_refused(
    given: dict[str, Any], says: str
):
    with pytest.raises(SettingsError, match=says):
        plan(**given)


@pytest.mark.parametrize(
    ("model", "template", "expected"), [(QWEN, PLAIN, GREEDY), (IN_CODE, OPENED, as_card(32_768))]
)
def test_a_template_of_ones_own_decides_also_where_vllm_renders_in_code(
    tmp_path: Path, model: ResolvedModel, template: str, expected: SamplingParams
):
    file = tmp_path / "own.jinja"
    file.write_text(template)

    assert sampled(model, chat_template=str(file)) == expected
