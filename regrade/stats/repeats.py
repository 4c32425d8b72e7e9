"""Averages over several answers to each question, with the names that papers give them: avg@k, pass@k and maj@k."""

import re
from collections.abc import Mapping

_PASS_AT = re.compile(r"pass_at_(\d+)")

Average = tuple[str, float, float | None]
"""Name, value in [0, 1], and standard error (None if unknown)."""


def average_name(repeats: int) -> str:
    """Return the name of the accuracy over `repeats` answers per question, such as `avg@8`; "" for one answer."""
    return "" if repeats == 1 else f"avg@{repeats}"


def further_averages(metrics: Mapping[str, float | int | None], repeats: int) -> list[Average]:
    """Return pass@k for the largest k of a scoring, and the accuracy of the majority; nothing without repeats.

    Args:
        metrics: Scalars of a `Summary` by name; those of `Summary.averages` are used.
        repeats: Answers per question.
    """
    if repeats == 1:
        return []
    ks = [int(match[1]) for name in metrics if (match := _PASS_AT.fullmatch(name))]
    named = [
        (f"pass@{k}", f"pass_at_{k}", f"pass_at_{k}_stderr") for k in (max(ks, default=1),) if k > 1
    ]
    named.append((f"maj@{repeats}", "majority_accuracy", "majority_stderr"))
    return [
        (name, value, metrics.get(error))
        for name, key, error in named
        if (value := metrics.get(key)) is not None
    ]
