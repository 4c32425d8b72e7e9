"""Options with several values: axes of a sweep, split off the arguments before the rest is parsed."""

from collections.abc import Iterator, Sequence
from typing import Annotated

from cyclopts import Parameter
from pydantic import ValidationError

from regrade.engines.openai_api.settings import ServerSettings
from regrade.engines.vllm_process.settings import VllmSettings
from regrade.errors import SettingsError
from regrade.problems import one_line
from regrade.settings import PromptSettings, SamplingParams, Settings
from regrade.sweeping.axes import DEFAULT, Axis

VALUES = Annotated[str, Parameter(show=False, allow_leading_hyphen=True)]
IN_FLIGHT = "--in-flight"
_TEXTS = ("model", "engine.lora", "prompt.system", "prompt.chat_template")
"""Settings whose values may contain commas: they are given repeatedly."""
_LISTS = ("sampling.stop", "prompt.chat_template_args", "engine.extra", "engine.base_url")
"""Settings that are lists: several values are a single setting."""

_NOT_VARIED = ("engine.max_concurrency", "engine.more_base_urls", "engine.tuned")


def several_values(arguments: Sequence[str]) -> tuple[list[str], list[Axis], list[int]]:
    """Split the options with several values off.

    Returns:
        The other arguments, with the first value of each axis; the axes in the order given; the requests in flight.

    Raises:
        SettingsError: If requests in flight are no numbers, or a value is given twice.
    """
    options = dict(_options())
    values: dict[str, list[str]] = {}
    in_flight: list[int] = []
    others: list[str] = []
    left = list(arguments)
    while left:
        argument = left.pop(0)
        name, equals, value = argument.partition("=")
        name = name.replace("_", "-")
        known = name in options or name == IN_FLIGHT
        if not known or (not equals and (not left or left[0].startswith("--"))):
            others.append(argument)
            continue
        text = value if equals else left.pop(0)
        if name == IN_FLIGHT:
            in_flight += whole_numbers(IN_FLIGHT, text)
            continue
        setting = options[name]
        parts = [text] if setting in _TEXTS else [part.strip() for part in text.split(",")]
        values.setdefault(name, []).extend(parts)
    axes = []
    for name, given in values.items():
        if len(given) > 1:
            axes.append(_axis(options[name], given))
        if given[0] != DEFAULT:
            others.append(f"{name}={given[0]}")
    return others, axes, in_flight


def whole_numbers(option: str, text: str) -> list[int]:
    """Return the numbers of a list such as `1,4,16`.

    Raises:
        SettingsError: If one is not a whole number above 0.
    """
    numbers = [part.strip() for part in text.split(",")]
    if any(not number.isdecimal() or int(number) < 1 for number in numbers):
        raise SettingsError(f"`{option} {text}` should be whole numbers above 0, such as `1,4,16`.")
    return [int(number) for number in numbers]


def _axis(setting: str, values: Sequence[str]) -> Axis:
    try:
        return Axis(setting=setting, values=tuple(values))
    except ValidationError as error:
        raise SettingsError(f"Axis '{setting}': {one_line(error)}") from error


def _options() -> Iterator[tuple[str, str]]:
    """Yield option and setting of everything that may have several values."""
    yield from (("--model", "model"), ("--repeats", "repeats"), ("--lora", "engine.lora"))
    yield "--sampling", "sampling.defaults"
    groups: tuple[tuple[str, str, type[Settings]], ...] = (
        ("--", "sampling", SamplingParams),
        ("--", "prompt", PromptSettings),
        ("--engine.", "engine", VllmSettings),
        ("--", "engine", ServerSettings),
    )
    for prefix, group, fields in groups:
        for name in fields.model_fields:
            if f"{group}.{name}" not in (*_LISTS, *_NOT_VARIED):
                yield f"{prefix}{_dashed(name)}", f"{group}.{name}"


def _dashed(name: str) -> str:
    return name.replace("_", "-")
