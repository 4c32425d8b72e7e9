"""Facts about chat templates in the forms of well-known models, rendered without their tokenizers."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

import pytest

from regrade.models import chat_template
from regrade.models.chat_template import ChatTemplate, find_template, rendered_in_code
from regrade.settings.errors import SettingsError
from tests.memory import taking_at_most

TURNS = (
    "{%- for m in messages -%}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{%- endfor -%}"
)
PLAIN = TURNS + "{%- if add_generation_prompt -%}<|im_start|>assistant\n{%- endif -%}"
HYBRID = (
    TURNS + "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}"
    "{%- endif %}"
)
"""Like Qwen3: the model begins the thought itself, unless the prompt skips it."""
OPENED = TURNS + "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
"""Like DeepSeek-R1 and QwQ."""
OFF_BY_DEFAULT = (
    TURNS
    + "{%- if thinking is defined and thinking -%}<|im_start|><think>{%- else -%}<|im_start|></think>{%- endif -%}"
)
"""Like DeepSeek-V3.1."""
BY_SYSTEM = (
    "{%- set thinks = '/no_think' not in messages[0].content %}"
    + PLAIN
    + "{%- if not thinks -%}<think>\n\n</think>\n\n{%- endif -%}"
)
"""Like Llama-3.3-Nemotron-Super-49B-v1.5: the system message switches reasoning off."""
CHANNEL = TURNS + (
    "{%- if enable_thinking is defined and enable_thinking -%}<|think|>{%- endif -%}<|turn>model\n"
    "{%- if not enable_thinking | default(false) -%}<|channel>thought\n<channel|>{%- endif -%}"
)
"""Like Gemma 4."""
ASKED = "{%- if thinking -%}Write down your thought process first.{%- endif -%}" + PLAIN
"""Like Granite 3.3: the argument only changes the system message."""
SYSTEM = "[SYSTEM_PROMPT]Think first: [THINK]draft[/THINK]answer[/SYSTEM_PROMPT]" + PLAIN
"""Like Magistral."""
BUDGETED = HYBRID + "{% if thinking_budget is defined %}{{ thinking_budget }}{% endif %}"


@pytest.mark.parametrize(
    ("text", "model_type", "arguments", "thinks"),
    [
        (PLAIN, "llama", {}, False),
        (HYBRID, "qwen3", {}, True),
        (HYBRID, "qwen3", {"enable_thinking": False}, False),
        (OPENED, "qwen2", {}, True),
        (OFF_BY_DEFAULT, "deepseek_v3", {}, False),
        (OFF_BY_DEFAULT, "deepseek_v3", {"thinking": True}, True),
        (SYSTEM, "mistral", {}, True),
        (PLAIN, "gpt_oss", {}, True),
        (CHANNEL, "gemma4", {}, False),
        (CHANNEL, "gemma4", {"enable_thinking": True}, True),
        (ASKED, "granite", {}, False),
        (ASKED, "granite", {"thinking": True}, True),
        (ASKED, "granite", {"thinking": False}, False),
        (BY_SYSTEM, "nemotron-nas", {}, True),
        (PLAIN + "{# <think> #}", "kimi_k2", {}, True),
        (PLAIN, "kimi_k2", {}, False),
    ],
)
def test_a_model_is_known_to_reason(text: str, model_type: str, arguments: dict, thinks: bool):
    assert ChatTemplate(text, model_type).thinks(arguments) is thinks


def test_what_transformers_offers_to_templates_is_there():
    text = (
        "{%- generation -%}{{ bos_token }}{{ messages | tojson }}{{ strftime_now('%Y') }}{% for m in messages %}"
        "{% if loop.first %}{% continue %}{% endif %}{% endfor %}{%- endgeneration -%}<think>"
    )
    template = ChatTemplate(text, special_tokens={"bos_token": "<s>"})

    assert template._render({}) == (
        f'<s>[{{"role": "user", "content": "?"}}]{datetime.now().astimezone():%Y}<think>'
    )
    assert template.prints_the_day
    assert template.thinks({})


def test_a_template_may_look_at_tools_and_choose_the_form_of_json():
    text = "{% if tools is not none %}{{ tools }}{% endif %}{{ messages | tojson(ensure_ascii=False) }}<think>"

    assert ChatTemplate(text).thinks({})


def test_a_template_that_is_none_reads_no_names():
    assert ChatTemplate("{% broken").arguments == frozenset()


def test_reasoning_is_switched_by_the_argument_that_the_template_reads():
    assert ChatTemplate(HYBRID).switched("off") == {"enable_thinking": False}
    assert ChatTemplate(HYBRID).switched("on") == {}
    assert ChatTemplate(OFF_BY_DEFAULT).switched("on") == {"thinking": True}
    assert ChatTemplate(OFF_BY_DEFAULT).switched("off") == {}
    assert ChatTemplate(OPENED).switched("on") == {}
    assert ChatTemplate(CHANNEL).switched("on") == {"enable_thinking": True}
    assert ChatTemplate(CHANNEL).switched("off") == {}
    assert ChatTemplate(ASKED).switched("on") == {"thinking": True}


def test_the_system_message_of_the_prompts_decides_where_the_template_reads_it():
    assert ChatTemplate(BY_SYSTEM).thinks({})
    assert ChatTemplate(BY_SYSTEM, system="Be brief.").thinks({})
    assert not ChatTemplate(BY_SYSTEM, system="/no_think").thinks({})
    assert ChatTemplate(BY_SYSTEM, system="/no_think").switched("off") == {}
    with pytest.raises(SettingsError, match="`prompt.system=/no_think` switches reasoning off"):
        ChatTemplate(BY_SYSTEM).switched("off")


@pytest.mark.parametrize(("text", "thinking"), [(OPENED, "off"), (PLAIN, "on")])
def test_what_a_template_cannot_do_is_refused(text: str, thinking):
    with pytest.raises(SettingsError, match=f"`prompt.thinking={thinking}`.*cannot switch"):
        ChatTemplate(text).switched(thinking)


def test_a_template_of_a_file_is_named_by_the_setting_that_gave_it():
    template = ChatTemplate(PLAIN, origin="the chat template (`prompt.chat_template=a.jinja`)")
    with pytest.raises(SettingsError, match=r"`prompt.chat_template=a.jinja`\) cannot switch"):
        template.switched("on")


def test_a_budget_is_the_templates_argument():
    assert ChatTemplate(BUDGETED).budget == "thinking_budget"
    assert ChatTemplate(HYBRID).budget is None


def test_a_file_replaces_the_template_in_the_tokenizers_configuration():
    stored = {"chat_template": "old", "bos_token": {"content": "<s>"}, "eos_token": "</s>"}

    def found(**files: str) -> tuple[str, Mapping[str, str]]:
        template = find_template(stored, {f"chat_template.{k}": t for k, t in files.items()}, "")
        assert template is not None
        return template.text, template.special_tokens

    tokens = {"bos_token": "<s>", "eos_token": "</s>"}
    assert found() == ("old", tokens)
    assert found(jinja="new") == ("new", tokens)
    assert found(json='{"chat_template": "j"}') == ("j", tokens)


def test_of_several_templates_the_default_one_is_used():
    several = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]

    found = find_template({"chat_template": several}, {}, "")

    assert found is not None
    assert found.text == "d"
    assert find_template({"chat_template": several[:1]}, {}, "") is None
    assert find_template({}, {}, "") is None


def test_chats_that_vllm_renders_in_code_have_a_switch_but_no_template():
    found = rendered_in_code("deepseek_v32")

    assert found is not None
    assert not found.thinks({})
    assert found.thinks({"thinking": True})
    assert found.switched("on") == {"thinking": True}
    assert rendered_in_code("llama") is None


@pytest.mark.parametrize(
    ("template", "limit"),
    [
        ("{{ 'x' * 2500000000 }}", "512 MiB of memory"),
        ("{{ 'x'.ljust(2000000000) }}", "512 MiB of memory"),
        ("{{ '%2000000000d' % 1 }}", "512 MiB of memory"),
        (
            "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
            "5 s of CPU time",
        ),
    ],
)
def test_a_template_that_takes_all_memory_or_never_ends_is_refused_before_the_engine_renders_it(
    template: str, limit: str, monkeypatch: pytest.MonkeyPatch
):
    seconds = 1.0 if "CPU" in limit else chat_template._LIMITS.cpu_seconds
    short = replace(chat_template._LIMITS, cpu_seconds=seconds)  # the message has a user's
    monkeypatch.setattr(chat_template, "_LIMITS", short)
    refused = pytest.raises(SettingsError, match=f"takes more than {limit} for a question mark")
    with taking_at_most(200 << 20), refused:
        ChatTemplate(template + "{% if enable_thinking %}{% endif %}", "llama").thinks({})
    assert ChatTemplate(OPENED, "qwen2").thinks({})


@pytest.mark.parametrize(
    "template",
    [
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{{ 1 // 0 }}<think>",
        "{{ raise_exception('no') }}<think>",
        "{% broken",
    ],
)
def test_a_template_that_cannot_be_rendered_is_not_known_to_reason(
    template: str, caplog: pytest.LogCaptureFixture
):
    assert ChatTemplate(template, "llama").thinks({}) is False
    assert "cannot be rendered here" in caplog.text
