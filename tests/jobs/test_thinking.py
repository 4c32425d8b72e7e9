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

CARD = {"temperature": 0.7, "top_p": 0.8, "top_k": 20, "do_sample": True}


class Ranked(Sums):
    method = "rank"


class Completion(Sums):
    @property
    def prompt_identity(self) -> PromptIdentity:
        return super().prompt_identity.model_copy(update={"format": "completion"})


def model_with(template: str, **changes: Any) -> ResolvedModel:
    chosen = {"max_position_embeddings": 40_960, "generation_config": CARD, **changes}
    return replace(MODEL, chat_template=ChatTemplate(template, "qwen3"), **chosen)


QWEN = model_with(HYBRID)


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


def test_a_model_that_reasons_gets_its_own_sampling_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.INFO, "regrade.plan")

    chosen = sampled()

    assert chosen == SamplingParams(
        temperature=0.7, top_p=0.8, top_k=20, max_tokens=32_768, stop=("\n",)
    )
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


def test_with_reasoning_switched_off_the_card_decides_and_not_greedy_decoding():
    off = SamplingParams(temperature=0.7, top_p=0.8, top_k=20, max_tokens=64, stop=("\n",))
    assert sampled(thinking="off") == off
    unknown = replace(QWEN, chat_template=ChatTemplate(HYBRID, "another"))
    chosen = sampled(unknown, thinking="off")
    assert chosen == SamplingParams(max_tokens=64, stop=("\n",))


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
    stated = {
        **CARD,
        "min_p": 0.1,
        "repetition_penalty": 1.1,
        "presence_penalty": 1.5,
        "frequency_penalty": 0.2,
        "max_new_tokens": 2048,
    }
    chosen = sampled(model_with(HYBRID, generation_config=stated))

    assert (
        chosen.model_dump(exclude_unset=True, exclude={"stop", "seed"}).items()
        >= {
            **{
                name: value for name, value in stated.items() if name in SamplingParams.model_fields
            },
            "max_tokens": 2048,
        }.items()
    )


def test_a_model_that_states_nothing_is_sampled_as_the_card_of_its_family_says():
    gpt_oss = model_with(PLAIN, generation_config=None)
    gpt_oss = replace(gpt_oss, chat_template=ChatTemplate(PLAIN, "gpt_oss"))
    chosen = sampled(gpt_oss)

    assert (chosen.temperature, chosen.top_p) == (1.0, 1.0)


def test_every_family_of_the_table_has_a_source_and_values_that_vllm_takes():
    table = tomllib.loads(files("regrade.models").joinpath("cards.toml").read_text())["family"]
    types = [kind for family in table for kind in family["types"]]

    assert len(types) == len(set(types))
    for family in table:
        assert family["source"].startswith("https://")
        assert family.keys() & {"on", "off"}
        for mode in ("on", "off"):
            SamplingParams.model_validate(family.get(mode, {}))


@pytest.mark.parametrize("asked", [{}, {"thinking": "off"}])
def test_answers_with_the_earlier_defaults_are_found_and_continued(asked: dict[str, Any]):
    now = plan(benchmark=Competition(1), **asked)
    (before,) = now.earlier

    assert before.answer_set_id != now.specification.answer_set_id
    assert before.sampling == SamplingParams(
        **(
            {"max_tokens": 64}
            if asked
            else {"temperature": 0.7, "top_p": 0.8, "top_k": 20, "max_tokens": 30_720}
        ),
        stop=("\n",),
    )
    by_hand = SamplingSettings(temperature=0.1, top_p=1.0, top_k=0, max_tokens=5)
    assert plan(sampling=by_hand).earlier == ()


def test_the_ids_of_the_earlier_defaults_are_those_that_earlier_versions_gave():
    """Ids by commit 04fb4f9."""
    ids = [
        [known.answer_set_id for known in plan(**asked).earlier]
        for asked in ({}, {"thinking": "off"})
    ]

    assert ids == [["9ebf23916102996a"], ["dbf6e5ec3b3c626c"]]


def test_what_is_set_by_hand_wins():
    greedy = sampled(sampling=SamplingSettings(temperature=0, max_tokens=99))
    benchmarks = sampled(sampling=SamplingSettings(defaults="benchmark"))

    assert greedy == SamplingParams(max_tokens=99, stop=("\n",))  # greedy: top_p has no effect
    assert benchmarks == SamplingParams(max_tokens=64, stop=("\n",))


def test_what_a_dataset_sets_is_set_by_hand():
    dataset = SamplingParams(max_tokens=96, stop=("x",))
    job = SamplingSettings(stop=("y",))

    both = with_sampling(job, dataset)
    alone = with_sampling(None, dataset)

    assert both.model_dump(exclude_unset=True) == {"max_tokens": 96, "stop": ("y",)}
    chosen = sampled(sampling=alone)
    assert (chosen.max_tokens, chosen.stop, chosen.temperature) == (96, ("x",), 0.7)


def test_the_models_sampling_can_be_chosen_for_any_model():
    settings = SamplingSettings.model_validate("model")

    chosen = sampled(model_with(PLAIN), sampling=settings)

    assert chosen == SamplingParams(
        temperature=0.7, top_p=0.8, top_k=20, max_tokens=64, stop=("\n",)
    )


@pytest.mark.parametrize("config", [None, {"eos_token_id": 2}])
def test_a_model_without_sampling_params_is_refused_if_they_are_wanted(config: Any):
    model = model_with(PLAIN, generation_config=config)

    with pytest.raises(SettingsError, match="has no 'generation_config.json' with sampling params"):
        plan(model, sampling=SamplingSettings(defaults="model"))


def test_a_value_that_vllm_cannot_use_is_named():
    with pytest.raises(SettingsError, match="`temperature` should be 2 or less, not 7"):
        plan(model_with(HYBRID, generation_config={"temperature": 7}))


def test_a_model_that_states_no_sampling_decodes_greedily():
    model = model_with(PLAIN, generation_config={"do_sample": False})

    chosen = sampled(model, sampling=SamplingSettings(defaults="model"))

    assert chosen.temperature == 0


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


def test_two_settings_that_switch_reasoning_contradict_each_other():
    with pytest.raises(SettingsError, match="both switch the reasoning"):
        plan(thinking="on", chat_template_args=("enable_thinking=false",))


def test_letters_are_ranked_with_reasoning_switched_off(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "regrade.plan")

    specification = plan(benchmark=Ranked(1)).specification

    assert specification.prompt.chat_template_args == {"enable_thinking": False}
    assert specification.prompt.labels == "turn"
    assert "reasoning is switched off" in caplog.text


@pytest.mark.parametrize(
    ("template", "prompt"),
    [
        (OPENED, {}),
        (HYBRID, {"thinking": "on"}),
        (HYBRID, {"chat_template_args": ("enable_thinking=true",)}),
    ],
)
def test_letters_after_an_open_thought_are_refused(template: str, prompt: dict):
    with pytest.raises(SettingsError, match="ranks letters right after the prompt"):
        plan(model_with(template), Ranked(1), **prompt)


def test_a_system_message_that_switches_reasoning_off_is_read():
    model = model_with(BY_SYSTEM)

    assert plan(model).reasons
    assert not plan(model, system="/no_think").reasons
    assert plan(model, Ranked(1), system="/no_think").specification.prompt.labels == "turn"
    with pytest.raises(
        SettingsError, match="Use `prompt.system=/no_think`, or `prompt.format=completion`"
    ):
        plan(model, Ranked(1))


def test_completion_prompts_have_no_template(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "regrade.plan")

    specification = plan(benchmark=Completion(1), thinking="off").specification

    assert specification.prompt.chat_template_args == {}
    assert specification.prompt.labels == "appended"
    assert specification.sampling == SamplingParams(max_tokens=64, stop=("\n",))
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


def test_a_budget_for_reasoning_that_is_switched_off_is_refused():
    with pytest.raises(
        SettingsError, match="limits reasoning that `prompt.thinking=off` switches off"
    ):
        plan(sampling=SamplingSettings(thinking_token_budget=5), thinking="off")


def test_the_sampling_of_a_served_models_card_is_not_known():
    with pytest.raises(SettingsError, match="only its server knows"):
        plan(served(), sampling=SamplingSettings(defaults="model"))


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


def test_a_model_that_is_rendered_in_code_cannot_be_switched():
    model = replace(QWEN, chat_template=RenderedInCode())

    with pytest.raises(SettingsError, match="cannot switch reasoning on"):
        plan(model, thinking="on")


def test_a_template_of_ones_own_decides(tmp_path: Path):
    file = tmp_path / "plain.jinja"
    file.write_text(PLAIN)

    chosen = sampled(chat_template=str(file))

    assert chosen == SamplingParams(max_tokens=64, stop=("\n",))


def test_a_template_of_ones_own_counts_where_vllm_renders_in_code(tmp_path: Path):
    file = tmp_path / "opened.jinja"
    file.write_text(OPENED)

    chosen = sampled(replace(QWEN, chat_template=RenderedInCode()), chat_template=str(file))

    assert chosen.temperature == 0.7
