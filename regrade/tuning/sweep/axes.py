"""Axes of a sweep: a setting with the values that it takes, one after the other."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import product
from typing import Any

from pydantic import BaseModel, Field, field_validator

from regrade.settings import PromptSettings, SamplingSettings, Settings, registry

DEFAULT = "default"
"""Value of an axis that leaves the setting out, so that its default applies."""
_SERVER_LIMIT = "engine.max_concurrency"


class Axis(Settings):
    """A setting that varies, and its values."""

    setting: str = Field(min_length=1)
    """Setting, such as `engine.max_num_batched_tokens`, `prompt.n_shots`, `sampling.temperature` or `model`."""
    values: tuple[str, ...] = Field(min_length=1)
    """Values, in the order in which they are measured; `default` leaves the setting out."""

    @field_validator("setting")
    @classmethod
    def _is_known(cls, setting: str) -> str:
        if setting == _SERVER_LIMIT:
            raise ValueError(f"'{setting}' cannot be an axis: give the numbers as `in_flight`.")
        known = settings_that_vary()
        if setting not in known:
            close = get_close_matches(setting, known, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else f" Known: {', '.join(known)}."
            raise ValueError(f"'{setting}' cannot be an axis.{hint}")
        return setting

    @field_validator("values")
    @classmethod
    def _differ(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        if twice := [value for value in values if values.count(value) > 1]:
            raise ValueError(f"'{twice[0]}' is given twice.")
        return values


def settings_that_vary() -> tuple[str, ...]:
    """Return the names of all settings that can be an axis."""
    broken = {error.name for error in registry.broken("engine")}
    engines = [registry.load("engine", n) for n in registry.names("engine") if n not in broken]
    return (
        "model",
        "repeats",
        *_fields("sampling", SamplingSettings),
        *_fields("prompt", PromptSettings),
        *dict.fromkeys(name for engine in engines for name in _fields("engine", engine)),
    )


def _fields(group: str, model: type[BaseModel]) -> list[str]:
    left_out = ("kind", "max_concurrency", "more_base_urls", "tuned")
    return [f"{group}.{name}" for name in model.model_fields if name not in left_out]


def grid(axes: Iterable[Axis]) -> Iterator[dict[str, str]]:
    """Yield all combinations of values, by setting; the last axis varies fastest."""
    axes = list(axes)
    for values in product(*(axis.values for axis in axes)):
        yield {axis.setting: value for axis, value in zip(axes, values, strict=True)}


def with_values(parameters: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, Any]:
    """Return parameters of an evaluation with the values of a point.

    A setting that is a list, such as `engine.extra`, gets the value in addition to those it has.

    Args:
        parameters: Parameters that all points share.
        values: Values by setting; checking them is left to the job that is made of the parameters.
    """
    changed: dict[str, Any] = dict(parameters)
    for setting, value in values.items():
        *groups, name = setting.split(".")
        target = changed
        for group in groups:
            target[group] = dict(target.get(group) or {})
            target = target[group]
        if value == DEFAULT:
            if name != "model":
                target.pop(name, None)
        elif isinstance(target.get(name), list | tuple) or name in _LISTS:
            target[name] = [*(target.get(name) or ()), value]
        else:
            target[name] = value
    return changed


_LISTS = ("extra", "stop", "chat_template_args")
"""Settings with several values of their own."""
