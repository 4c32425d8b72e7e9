"""Reasoning, sampling and repeats of a model's answers to a benchmark."""

import logging
from typing import NamedTuple

from regrade.benchmarks.base import Benchmark
from regrade.jobs.sampling import choose_sampling
from regrade.jobs.thinking import Reasoning, plan_reasoning
from regrade.models.base import ResolvedModel
from regrade.models.chat_template import SWITCHES
from regrade.settings import PromptSettings, SamplingParams, SamplingSettings
from regrade.settings.errors import SettingsError

logger = logging.getLogger("regrade.generate")


class QuestionSettings(NamedTuple):
    """Reasoning, sampling and repeats of a model's answers to a benchmark."""

    reasoning: Reasoning
    sampling: SamplingParams
    repeats: int
    """Answers per question."""
    earlier: tuple[SamplingParams, int]
    """Sampling and answers per question by the rules of earlier versions."""


def question_settings(
    benchmark: Benchmark,
    model: ResolvedModel,
    *,
    sampling: SamplingSettings | None,
    prompt: PromptSettings,
    repeats: int | None,
    repeats_greedy: bool = False,
) -> QuestionSettings:
    """Return reasoning, sampling and repeats; arguments and errors are those of `make_plan`. Reads no questions."""
    is_chat = benchmark.prompt_identity.format == "chat"
    if is_chat and model.answers_chats is False and prompt.chat_template is None:
        raise SettingsError(
            f"Benchmark '{benchmark.name}' uses chat prompts, but model '{model.identity.name}' has no chat template. "
            "Use `prompt.format=completion`, or give a template (`prompt.chat_template=FILE`)."
        )
    reasoning = plan_reasoning(
        model,
        prompt,
        "chat" if is_chat else "completion",
        benchmark.method,
        benchmark.name,
        budget=None if sampling is None else sampling.thinking_token_budget,
    )
    chosen, before = (
        choose_sampling(
            benchmark,
            model,
            sampling,
            reasons=reasoning.expected,
            switched_off=is_chat
            and (
                prompt.thinking == "off"
                or any(reasoning.arguments.get(name) is False for name in SWITCHES)
            ),
            earlier=earlier,
        )
        for earlier in (False, True)
    )
    if reasoning.expected and benchmark.cuts_when_scored:
        chosen, before = (known.model_copy(update={"stop": ()}) for known in (chosen, before))
    repeats_before = repeats or (benchmark.repeats if before.temperature > 0 else 1)
    if repeats is None:
        repeats = benchmark.repeats if chosen.temperature > 0 else 1
        if repeats < benchmark.repeats:
            logger.info(
                "%s: 1 answer per question instead of %d, because greedy decoding repeats itself",
                benchmark.name,
                benchmark.repeats,
            )
    if repeats > 1 and chosen.temperature == 0 and not repeats_greedy:
        raise SettingsError(equal_answers(repeats))
    return QuestionSettings(reasoning, chosen, repeats, (before, repeats_before))


def equal_answers(repeats: int) -> str:
    """Error text for repeats of greedy decoding."""
    return (
        f"`repeats={repeats}`: with temperature 0 all {repeats} answers to a question would be the same. Set "
        "`sampling.temperature` above 0, or `repeats=1`."
    )
