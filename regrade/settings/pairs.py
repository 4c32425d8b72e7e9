"""Arguments of the form `name=value`, as templates and tasks of others take them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from regrade.settings.errors import SettingsError

_PYTHON_WORDS: Mapping[str, bool | None] = {"True": True, "False": False, "None": None}


def named_values(parameter: str, arguments: Sequence[str], example: str) -> dict[str, Any]:
    """Parse `name=value` arguments. A value is JSON, or Python's `True`, `False` or `None`; other values are text.

    Args:
        parameter: Name of the parameter, for messages.
        arguments: The arguments.
        example: An argument as an example, for messages.

    Raises:
        SettingsError: If an argument is not `name=value`, or a name is given twice.
    """
    values: dict[str, Any] = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not equals or not name.isidentifier():
            raise SettingsError(
                f"{parameter} has '{argument}', expected `name=value`, such as `{example}`."
            )
        if name in values:
            raise SettingsError(f"{parameter} gives '{name}' twice. Give it once.")
        try:
            values[name] = _PYTHON_WORDS[value] if value in _PYTHON_WORDS else json.loads(value)
        except json.JSONDecodeError:
            values[name] = value
    return values
