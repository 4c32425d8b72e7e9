"""How long the context has to be, decided before the weights are loaded."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from regrade.errors import SettingsError

_MARGIN = 1.25
"""The longest prompts are picked by their rough length, so that a longer one may be among the others."""
_MULTIPLE = 256


@dataclass(frozen=True, slots=True)
class Need:
    """Tokens that one request takes."""

    prompt: int
    new: int


def choose_max_model_len(
    needs: Sequence[Need], *, limit: int, explicit: int | None, truncate: bool
) -> int:
    """Return the context length in tokens to load the model with.

    Args:
        needs: Of the longest requests. None at all: the model's own limit.
        limit: The model's own limit.
        explicit: What was asked for; prompts that do not fit are then failed rows.
        truncate: Whether prompts may be cut.

    Raises:
        SettingsError: If it cannot be as asked, with the numbers and what to do.
    """
    if explicit is not None and explicit > limit:
        raise SettingsError(
            f"max_model_len is {explicit:,}, but the model allows {limit:,} tokens. "
            f"Set engine.max_model_len to at most {limit:,}."
        )
    context = limit if explicit is None else explicit
    new = max((need.new for need in needs), default=0)
    if new >= context:
        whose = "the model allows" if explicit is None else "max_model_len is"
        raise SettingsError(
            f"max_tokens is {new:,}, but {whose} {context:,} tokens for prompt and answer together. "
            f"Set sampling.max_tokens below {context:,}."
        )
    if explicit is not None or not needs:
        return context
    longest = max(needs, key=lambda need: need.prompt + need.new)
    if longest.prompt + longest.new > limit:
        if truncate:
            return limit
        raise SettingsError(_too_long(longest, limit))
    wanted = max(math.ceil(need.prompt * _MARGIN) + need.new for need in needs)
    return min(limit, math.ceil(wanted / _MULTIPLE) * _MULTIPLE)


def too_long(need: Need, context: int) -> str:
    """Return what a row says whose prompt does not fit."""
    return (
        f"The prompt has {need.prompt:,} tokens, which with {need.new:,} for the answer exceeds the context of "
        f"{context:,}."
    )


def _too_long(longest: Need, limit: int) -> str:
    room = limit - longest.prompt
    lower = f"lower sampling.max_tokens to at most {room:,}, " if room > 0 else ""
    return (
        f"The longest prompt has {longest.prompt:,} tokens and max_tokens is {longest.new:,}, "
        f"{longest.prompt + longest.new:,} together, but the model allows {limit:,}. You can {lower}"
        f"ask for fewer worked examples (n_shots), set engine.max_model_len (at most {limit:,}) to accept that such "
        "rows fail, or let prompts be cut from the left (prompt.truncate)."
    )
