"""Generation settings of tasks as sampling params."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from regrade.lm_eval.plan import cannot_run
from regrade.settings import SamplingParams

MAX_TOKENS = 256
"""Tokens that lm_eval's vLLM model generates if a task names no number."""
_MAX_TOKENS_NAMES = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
"""Names of the number of tokens, by precedence (`normalize_gen_kwargs` in `lm_eval/models/utils.py`)."""
_SAME = ("top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")
_READ = frozenset({"do_sample", "until", "temperature"})
"""Names of settings that `sampling_of` reads."""


def sampling_of(task: str, generation: Mapping[str, Any] | None, delimiter: str) -> SamplingParams:
    """Return the sampling params of a task's `generation_kwargs`.

    Args:
        task: Name for messages.
        generation: The task's settings, or None.
        delimiter: Text between worked examples, which ends an answer unless the task names stop texts.

    Raises:
        SettingsError: If a setting is not known, or its value not valid.
    """
    settings = dict(generation or {})
    lengths = [settings.pop(name, None) for name in _MAX_TOKENS_NAMES]
    until = settings.get("until", [delimiter])
    stops = [until] if isinstance(until, str) else list(until or [])
    if settings.get("num_beams") == 1:
        del settings["num_beams"]
    greedy = settings.get("do_sample") is False
    values: dict[str, Any] = {
        "temperature": 0.0 if greedy else float(settings.get("temperature") or 0.0),
        "max_tokens": next((int(length) for length in lengths if length is not None), MAX_TOKENS),
        "stop": tuple(stop for stop in stops if stop),
    }
    for name in _SAME:
        if settings.get(name) is not None:
            values[name] = settings[name]
    unknown = sorted(set(settings) - set(_SAME) - _READ)
    if unknown:
        raise cannot_run(task, f"regrade does not know its generation setting '{unknown[0]}'")
    if values.get("top_k") == -1:
        values["top_k"] = 0
    try:
        return SamplingParams.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        raise cannot_run(
            task, f"its generation setting '{problem['loc'][0]}' is not valid ({problem['msg']})"
        ) from error
