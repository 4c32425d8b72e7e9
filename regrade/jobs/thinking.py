"""Reasoning before chat answers: does a model reason, and which arguments of its chat template switch it."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from regrade.benchmarks.questions.prompting import chat_template_arguments, read_chat_template
from regrade.models.base import ResolvedModel
from regrade.models.chat_template import NO_THINK, SWITCHES, ChatTemplate
from regrade.settings import Method, PromptFormat, PromptSettings
from regrade.settings.errors import SettingsError

logger = logging.getLogger("regrade.plan")


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Reasoning before the answers of a run."""

    expected: bool
    """The model is expected to reason. Also False if this is unknown, as for a server."""
    arguments: Mapping[str, Any]
    """All arguments of the chat template."""
    prints_the_day: bool = False
    """The chat template can print today's date."""


def plan_reasoning(
    model: ResolvedModel,
    prompt: PromptSettings,
    prompt_format: PromptFormat,
    method: Method,
    benchmark: str,
    *,
    budget: int | None = None,
) -> Reasoning:
    """Return the expected reasoning of a model on a benchmark, with the arguments of its chat template.

    Reasoning is switched off if labels are ranked, which is impossible after a prompt that opens a thought.

    Args:
        model: The model.
        prompt: Settings of the run.
        prompt_format: Format of the benchmark's prompts.
        method: The benchmark's method.
        benchmark: Its name, for messages.
        budget: Most tokens of the reasoning; a template that can state it to the model does.

    Raises:
        SettingsError: If the chat template cannot switch the reasoning as it has to be, or two settings contradict each
            other.
    """
    if prompt_format == "completion":
        if prompt.thinking != "auto":
            logger.info(
                "%s: `--thinking` has no effect on completion prompts; they use no chat template",
                benchmark,
            )
        return Reasoning(False, {})
    arguments = chat_template_arguments(prompt.chat_template_args)
    by_hand = sorted(set(SWITCHES) & set(arguments))
    if prompt.thinking != "auto" and by_hand:
        raise SettingsError(
            f"`prompt.thinking={prompt.thinking}` and `prompt.chat_template_args={by_hand[0]}` both switch the reasoning. Give one."
        )
    if model.identity.kind == "served":
        return _of_a_server(model, prompt, method, arguments, benchmark)
    template = _template(model, prompt)
    if template is None:
        return Reasoning(False, arguments)
    template = replace(template, system=prompt.system)
    if prompt.thinking != "auto":
        arguments |= template.switched(prompt.thinking)
    if budget is not None and template.budget is not None:
        arguments.setdefault(template.budget, budget)
    expected = template.thinks(arguments)
    if budget is not None and prompt.thinking == "off":
        raise SettingsError(
            "`sampling.thinking_token_budget` limits reasoning that `prompt.thinking=off` switches off. Give one of them."
        )
    if method == "rank" and expected:
        if by_hand:
            raise SettingsError(
                f"{_cannot_rank(benchmark)} Leave out `prompt.chat_template_args={by_hand[0]}`."
            )
        expected, arguments = False, arguments | _switched_off(template, prompt, benchmark)
    return Reasoning(expected, arguments, template.prints_the_day)


def _of_a_server(
    model: ResolvedModel,
    prompt: PromptSettings,
    method: Method,
    arguments: dict[str, Any],
    benchmark: str,
) -> Reasoning:
    """Return the reasoning of a model whose template only the server knows; templates ignore unknown arguments."""
    if method == "rank" and prompt.thinking == "on":
        raise _cannot_rank(benchmark)
    # Other servers may refuse the arguments; a model that reasons is not ranked there anyway.
    ranked_by_vllm = method == "rank" and model.served_by == "vllm"
    if prompt.thinking != "auto" or (ranked_by_vllm and not set(SWITCHES) & set(arguments)):
        arguments |= dict.fromkeys(SWITCHES, prompt.thinking == "on")
    return Reasoning(prompt.thinking == "on", arguments)


def _template(model: ResolvedModel, prompt: PromptSettings) -> ChatTemplate | None:
    text = read_chat_template(prompt.chat_template)
    if text is None:
        return model.chat_template
    known = model.chat_template or ChatTemplate("")
    return ChatTemplate(
        text,
        known.model_type,
        known.special_tokens,
        origin=f"the chat template (`prompt.chat_template={prompt.chat_template}`)",
    )


def _switched_off(template: ChatTemplate, prompt: PromptSettings, benchmark: str) -> dict[str, Any]:
    if prompt.thinking == "on":
        raise _cannot_rank(benchmark)
    try:
        arguments = template.switched("off")
    except SettingsError as error:
        if template.switched_off_by_system:
            raise SettingsError(
                f"{_cannot_rank(benchmark)} Use `prompt.system={NO_THINK}`, or `prompt.format=completion`."
            ) from error
        raise SettingsError(
            f"{_cannot_rank(benchmark)} The chat template cannot switch it off: use `prompt.format=completion`."
        ) from error
    logger.info(
        "%s: reasoning is switched off, because letters are ranked right after the prompt",
        benchmark,
    )
    return arguments


def _cannot_rank(benchmark: str) -> SettingsError:
    return SettingsError(
        f"Benchmark '{benchmark}' ranks letters right after the prompt, where this model begins to reason."
    )
