"""The kind of a workload, which decides with model and hardware which settings are fast."""

import math
from itertools import islice
from typing import Literal

from regrade.jobs.plan import Plan
from regrade.settings import Method, StrictModel

_LOOKED_AT = 200
"""Most questions whose prompts are read, evenly spaced."""


class Workload(StrictModel):
    """Kind of a workload. Two with equal fields have the same fast settings, as far as is known."""

    method: Method
    """`generate` text, or `rank` labels."""
    prompt: int
    """90th percentile of the length of prompts in characters, as a power of two: 10 means up to 1,024."""
    answer: int
    """Limit on new tokens, as a power of two."""
    thinking: Literal["reasons", "answers"]
    """The model reasons before its answers, which are then much longer."""

    def __str__(self) -> str:
        done = (
            "ranked labels"
            if self.method == "rank"
            else f"answers of up to {2**self.answer:,} tokens"
        )
        reasoned = " after reasoning" if self.thinking == "reasons" else ""
        return f"prompts of up to {2**self.prompt:,} characters, {done}{reasoned}"


def workload_of(plan: Plan) -> Workload:
    """Return the kind of workload of an answer set."""
    n = len(plan.samples)
    step = max(1, n // _LOOKED_AT)
    lengths = sorted(_length(plan, index) for index in islice(range(0, n, step), _LOOKED_AT))
    sampling = plan.specification.sampling
    tokens = 1 if sampling is None else sampling.max_tokens
    return Workload(
        method=plan.specification.method,
        prompt=_power(lengths[math.ceil(0.9 * len(lengths)) - 1]),
        answer=_power(tokens),
        thinking="reasons" if plan.reasons else "answers",
    )


def _length(plan: Plan, index: int) -> int:
    prompt = plan.benchmark.prompt(plan.samples[index])
    return len(prompt) if isinstance(prompt, str) else sum(len(m["content"]) for m in prompt)


def _power(number: int) -> int:
    """Return the smallest power of two that is not below a number."""
    return max(0, math.ceil(math.log2(max(number, 1))))
