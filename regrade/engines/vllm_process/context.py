"""Choose the context length before the weights are loaded."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from regrade.settings.errors import SettingsError

_MULTIPLE = 256
"""The context length is a multiple of this, in tokens."""
_LARGEST_STEP = 8192
"""Up to here, the context length is rounded up to a power of two, and beyond to a multiple of this. vLLM compiles a model anew for each
length, so that few lengths let the next benchmark find it compiled."""


@dataclass(frozen=True, slots=True)
class Need:
    """Number of tokens that a request needs in the context."""

    prompt: int
    new: int
    """Tokens that are generated after the prompt."""

    @property
    def total(self) -> int:
        """Tokens of prompt and answer together."""
        return self.prompt + self.new


def choose_max_model_len(
    needs: Sequence[Need], *, limit: int, explicit: int | None, truncate: bool, tight: bool = False
) -> int:
    """Return the context length in tokens to load the model with.

    Args:
        needs: Tokens of the requests, at least of the longest ones. If empty, the result is `limit`, unless `explicit` is set.
        limit: The model's maximum.
        explicit: The length in the settings, if set; rows whose prompts do not fit then fail.
        truncate: Prompts may be cut.
        tight: Round up no further than necessary, for a memory that is full.

    Raises:
        SettingsError: If the settings do not fit the model; the message has the numbers and the options.
    """
    if explicit is not None and explicit > limit:
        raise SettingsError(
            f"`engine.max_model_len` is {explicit:,}, but the model allows {limit:,} tokens. "
            f"Set it to at most {limit:,}."
        )
    context = limit if explicit is None else explicit
    new = max((need.new for need in needs), default=0)
    if new >= context:
        allowed = "the model allows" if explicit is None else "`engine.max_model_len` is"
        raise SettingsError(
            f"`sampling.max_tokens` is {new:,}, but {allowed} {context:,} tokens for prompt and answer together. "
            f"Set it below {context:,}."
        )
    if explicit is not None or not needs:
        return context
    longest = max(needs, key=lambda need: need.total)
    if longest.total > limit:
        if truncate:
            return limit
        raise SettingsError(_advice(longest, limit))
    step = _MULTIPLE if tight else _LARGEST_STEP
    if longest.total <= step:
        return min(limit, max(_MULTIPLE, 1 << (longest.total - 1).bit_length()))
    return min(limit, math.ceil(longest.total / step) * step)


def check_memory(needs: Sequence[Need], context: int) -> None:
    """Check that the KV cache holds the longest request.

    Args:
        needs: Tokens of the requests, at least of the longest ones.
        context: Context length in tokens that the memory allows.

    Raises:
        SettingsError: If it does not; the message has the numbers and the options.
    """
    longest = max(needs, key=lambda need: need.total, default=None)
    if longest is not None and longest.total > context:
        raise SettingsError(
            f"The longest prompt has {longest.prompt:,} tokens and `sampling.max_tokens` is {longest.new:,}, {longest.total:,} together, "
            f"but the memory for the KV cache holds a context of {context:,}. Lower it, share the model "
            f"between more GPUs, or set `engine.max_model_len={context}` to let such rows fail."
        )


def too_long(need: Need, context: int) -> str:
    """Return the error message of a row whose prompt does not fit."""
    return (
        f"The prompt has {need.prompt:,} tokens, which with {need.new:,} for the answer exceeds the context of "
        f"{context:,}."
    )


def _advice(longest: Need, limit: int) -> str:
    room = limit - longest.prompt
    lower = f"lower `--max-tokens` to at most {room:,}, " if room > 0 else ""
    return (
        f"The longest prompt has {longest.prompt:,} tokens and `sampling.max_tokens` is {longest.new:,}, "
        f"{longest.total:,} together, but the model allows {limit:,}. You can {lower}"
        f"use fewer worked examples (`--n-shots`), set `--engine.max-model-len` (at most {limit:,}) to let such "
        "rows fail, or cut prompts from the left (`--truncate`)."
    )
