"""Suites: named lists of benchmarks to run together (`--suite`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    forms: Mapping[str, str]
    """Form of the prompts and of the answers of each member, by name."""
    shots: Mapping[str, int] = field(default_factory=dict)
    """Worked examples of members that have another number by themselves."""

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """Names of the members."""
        return tuple(self.forms)

    @property
    def missing(self) -> tuple[str, ...]:
        """Members that are not installed here."""
        return tuple(
            name
            for name in self.benchmarks
            if not (registry.is_known("benchmark", name) or _is_task(name))
        )


_ZERO = "0 examples"
_LETTER = f"{_ZERO}, chat, reasoning and a letter"
_BOXED = f"{_ZERO}, chat, reasoning and a boxed answer"
_PROGRAM = f"{_ZERO}, chat, a program that is run"
_REQUEST = f"{_ZERO}, chat, checked by programs"
_LEADERBOARD = "as the task of the harness sets it"

SUITES = (
    Suite(
        "core",
        "What model cards of instruct models report: knowledge, science, instructions, mathematics, code.",
        {
            "mmlu_redux": _LETTER,
            "mmlu_pro": "5 examples with reasoning as turns, chat, reasoning and a letter",
            "gpqa_diamond": _LETTER,
            "ifeval": _REQUEST,
            "gsm8k_chat": f"{_ZERO}, chat, reasoning and a number",
            "math_500": _BOXED,
            "humaneval_plus": _PROGRAM,
        },
    ),
    Suite(
        "reasoning",
        "Hard questions for models that think, without worked examples: competitions, science, code, instructions.",
        {
            "aime_2025": _BOXED,
            "aime_2026": _BOXED,
            "hmmt_nov_2025": _BOXED,
            "hmmt_feb_2026": _BOXED,
            "gpqa_diamond": _LETTER,
            "mmlu_pro": _LETTER,
            "livecodebench": _PROGRAM,
            "ifbench": _REQUEST,
        },
        {"mmlu_pro": 0},
    ),
    Suite(
        "base",
        "What papers report of base models, as plain text with their numbers of worked examples.",
        {
            "mmlu": "5 examples, plain text, letters are ranked",
            "lm_eval:bbh_cot_fewshot": "3 examples with reasoning, plain text, the answer is read",
            "lm_eval:gsm8k_cot": "8 examples with reasoning, plain text, the number is read",
            "lm_eval:hellaswag": "10 examples, plain text, endings are ranked per byte",
            "lm_eval:arc_challenge": "25 examples, plain text, answers are ranked per byte",
            "lm_eval:winogrande": "5 examples, plain text, sentences are ranked",
            "lm_eval:piqa": "0 examples, plain text, answers are ranked",
            # The harness' worked examples of DROP end with the names of the answer's fields instead of an answer.
            "lm_eval:drop": "0 examples (papers: 3; those of the harness hold no answers), plain text, F1",
            "lm_eval:triviaqa": "5 examples, plain text, an exact match",
        },
        {
            "lm_eval:hellaswag": 10,
            "lm_eval:arc_challenge": 25,
            "lm_eval:winogrande": 5,
            "lm_eval:triviaqa": 5,
        },
    ),
    Suite(
        "code",
        "Programs that run against tests, in a sandbox.",
        dict.fromkeys(("humaneval_plus", "mbpp_plus", "livecodebench"), _PROGRAM),
    ),
    Suite(
        "vision",
        "Questions about images, which cards of models that see report: college, mathematics, charts, documents, photographs.",
        {
            "mmmu": f"{_ZERO}, chat, a letter or a word",
            "mmmu_pro": _LETTER,
            "mathvista": f"{_ZERO}, chat, reasoning and a letter or a number",
            "chartqa": f"{_ZERO}, chat, a word",
            "docvqa": f"{_ZERO}, chat, a phrase",
            "ocrbench": f"{_ZERO}, chat, a text",
            "realworldqa": f"{_ZERO}, chat, a letter or a word",
        },
    ),
    Suite(
        "open-llm-leaderboard",
        "The tasks of version 2 of the Open LLM Leaderboard, as lm-evaluation-harness has them.",
        {
            "lm_eval:leaderboard_ifeval": f"{_LEADERBOARD}: 0 examples",
            "lm_eval:leaderboard_bbh": f"{_LEADERBOARD}: 3 examples, options are ranked",
            "lm_eval:leaderboard_math_hard": f"{_LEADERBOARD}: 4 examples with reasoning",
            "lm_eval:leaderboard_gpqa": f"{_LEADERBOARD}: 0 examples, options are ranked",
            "lm_eval:leaderboard_musr": f"{_LEADERBOARD}: 0 examples, options are ranked",
            "lm_eval:leaderboard_mmlu_pro": f"{_LEADERBOARD}: 5 examples, letters are ranked",
        },
    ),
)


def shots_of(names: Sequence[str]) -> dict[str, int]:
    """Return the worked examples of the members of suites, where they are not the benchmark's own; the first suite counts."""
    of_suites = [suite.shots for suite in SUITES if suite.name in names]
    return {name: n for shots in reversed(of_suites) for name, n in shots.items()}


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
