"""Suites: named lists of benchmarks to run together (`--suite`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from regrade.settings import registry
from regrade.settings.errors import SettingsError, UnknownNameError

HARNESS = "lm_eval"
"""Package, and first part of the names (`lm_eval:hellaswag`), of lm-evaluation-harness' tasks."""


@dataclass(frozen=True, slots=True)
class Suite:
    """A named list of benchmarks."""

    name: str
    description: str
    benchmarks: tuple[str, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """Members that are not installed here."""
        return tuple(
            name
            for name in self.benchmarks
            if not (registry.is_known("benchmark", name) or _is_task(name))
        )


SUITES = (
    Suite(
        "core",
        "What model cards of instruct models report: knowledge, science, instructions, mathematics, code.",
        (
            "mmlu_redux",
            "mmlu_pro",
            "gpqa_diamond",
            "ifeval",
            "gsm8k_chat",
            "math_500",
            "humaneval_plus",
        ),
    ),
    Suite(
        "reasoning",
        "Hard questions for models that think: competitions, science, code, instructions.",
        (
            "aime_2025",
            "aime_2026",
            "hmmt_nov_2025",
            "hmmt_feb_2026",
            "gpqa_diamond",
            "mmlu_pro",
            "livecodebench",
            "ifbench",
        ),
    ),
    Suite(
        "base",
        "What papers report of base models, as plain text with worked examples.",
        (
            "mmlu",
            "lm_eval:bbh_cot_fewshot",
            "gsm8k",
            "lm_eval:hellaswag",
            "lm_eval:arc_challenge",
            "lm_eval:winogrande",
            "lm_eval:piqa",
            "lm_eval:drop",
            "lm_eval:triviaqa",
        ),
    ),
    Suite(
        "code",
        "Programs that run against tests, in a sandbox.",
        ("humaneval_plus", "mbpp_plus", "livecodebench"),
    ),
    Suite(
        "open-llm-leaderboard",
        "The tasks of version 2 of the Open LLM Leaderboard, as lm-evaluation-harness has them.",
        (
            "lm_eval:leaderboard_ifeval",
            "lm_eval:leaderboard_bbh",
            "lm_eval:leaderboard_math_hard",
            "lm_eval:leaderboard_gpqa",
            "lm_eval:leaderboard_musr",
            "lm_eval:leaderboard_mmlu_pro",
        ),
    ),
)


def members(names: Sequence[str]) -> tuple[str, ...]:
    """Return the benchmarks of suites, each once, in order.

    Args:
        names: Names of suites.

    Raises:
        UnknownNameError: If there is no such suite.
        SettingsError: If a member is not installed.
    """
    known = {suite.name: suite for suite in SUITES}
    found: dict[str, None] = {}
    for name in names:
        if name not in known:
            raise UnknownNameError("suite", name, tuple(known))
        if missing := known[name].missing:
            raise SettingsError(
                f"Suite '{name}' has {_counted(missing)} not installed here: {', '.join(missing)}. {_advice(missing)}"
                "Or name the benchmarks that you want with `--benchmark`."
            )
        found |= dict.fromkeys(known[name].benchmarks)
    return tuple(found)


def _is_task(name: str) -> bool:
    """Return True for a task of the harness, if the harness is installed."""
    return name.startswith(f"{HARNESS}:") and find_spec(HARNESS) is not None


def _counted(names: Sequence[str]) -> str:
    return "a member that is" if len(names) == 1 else f"{len(names)} members that are"


def _advice(missing: Sequence[str]) -> str:
    if any(name.startswith(f"{HARNESS}:") for name in missing):
        return "`pip install 'regrade[lm-eval]'` brings the tasks of lm-evaluation-harness. "
    return ""
