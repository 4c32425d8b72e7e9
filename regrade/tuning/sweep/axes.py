"""Axes of a sweep: a setting with the values that it takes, one after the other."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from itertools import product
from typing import Any, get_origin

from pydantic import Field, field_validator
from pydantic.fields import FieldInfo

from regrade.jobs.job import EvaluationJob
from regrade.settings import Settings
from regrade.settings.marks import FIXED, VARIES
from regrade.settings.problems import models_in

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


@cache
def settings_that_vary() -> dict[str, FieldInfo]:
    """Return all settings that can be an axis, by name."""
    settings: dict[str, FieldInfo] = {}
    for name, info in EvaluationJob.model_fields.items():
        if VARIES in info.metadata:
            groups = list(models_in(info.annotation))
            settings |= {} if groups else {name: info}
            for group in groups:
                for field, inner in group.model_fields.items():
                    if field != "kind" and FIXED not in inner.metadata:
                        settings.setdefault(f"{name}.{field}", inner)
    return settings


def _is_list(setting: str) -> bool:
    """Return True for a setting whose value is a list."""
    info = settings_that_vary().get(setting)
    return info is not None and get_origin(info.annotation) is tuple


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
        elif isinstance(target.get(name), list | tuple) or _is_list(setting):
            target[name] = [*(target.get(name) or ()), value]
        else:
            target[name] = value
    return changed
