"""Families of models, by their names: judges prefer answers of their own family.

Panickssery et al. 2024, LLM Evaluators Recognize and Favor Their Own Generations, https://arxiv.org/abs/2404.13076
"""

import re

from regrade.records.rubrics.facts import judge_run
from regrade.records.specification import Specification

_WORD = re.compile(r"[a-z]{3,}")
_NO_FAMILY = frozenset(
    [
        "awq",
        "base",
        "bit",
        "bnb",
        "chat",
        "checkpoint",
        "code",
        "coder",
        "demo",
        "distill",
        "dpo",
        "finetuned",
        "flash",
        "gguf",
        "gptq",
        "grpo",
        "instruct",
        "int",
        "judge",
        "large",
        "latest",
        "lora",
        "math",
        "max",
        "medium",
        "merged",
        "mini",
        "model",
        "moe",
        "nano",
        "new",
        "plus",
        "ppo",
        "preview",
        "pro",
        "reasoning",
        "results",
        "reward",
        "sft",
        "small",
        "test",
        "the",
        "thinking",
        "tiny",
        "turbo",
        "vision",
    ]
)
"""Words in names of models that do not tell their family."""
_RELATED = {
    "mixtral": "mistral",
    "ministral": "mistral",
    "magistral": "mistral",
    "devstral": "mistral",
    "codestral": "mistral",
    "qwq": "qwen",
    "gemma": "gemini",
    "codellama": "llama",
    "tinyllama": "llama",
    "twinllama": "llama",
    "vicuna": "llama",
    "chatgpt": "gpt",
    "zephyr": "mistral",
}
"""Families that are known by several names."""
_LABS = frozenset(
    {
        "anthropic",
        "cohere",
        "deepseek-ai",
        "google",
        "meta-llama",
        "microsoft",
        "mistralai",
        "openai",
        "qwen",
    }
)
"""Organisations whose models are relatives under any name; those of a team need not be."""


def same_family(judge: str, candidate: str) -> str | None:
    """Return the family, such as `qwen`, or the lab that two models share by their names, or None."""
    families = _families(judge) & _families(candidate)
    if families:
        return min(families)
    first, second = (name.lower().rpartition("/")[0] for name in (judge, candidate))
    return first if first in _LABS and first == second else None


def _families(model: str) -> set[str]:
    words = _WORD.findall(model.rpartition("/")[2].partition("@")[0].lower())
    return {_RELATED.get(word, word) for word in words} - _NO_FAMILY


def family_warning(specification: Specification) -> str | None:
    """Return a sentence if the judge of a judge run is the judged model, or of its family or lab; else None."""
    run = judge_run(specification)
    if run is None or run.judged is None:
        return None
    judge, candidate = specification.model.name, run.judged.model
    if judge == candidate:
        return f"'{judge}' judges its own answers: judges favour them. Judge them with another model, too."
    shared = same_family(judge, candidate)
    if shared is None:
        return None
    return (
        f"judge and candidate are of one family ('{shared}', by their names): judges favour answers of their own family. "
        "Judge them with another model, too."
    )
