"""Convert options to the parameters of a deployment, checked against its JSON schema."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from regrade.errors import SettingsError, UnknownNameError

Schema = Mapping[str, Any]


def fitting(chosen: Mapping[str, Any], given: Iterable[str], schema: Schema) -> dict[str, Any]:
    """Return the parameters to send to a deployment.

    Args:
        chosen: Parameters from options.
        given: `name=value` each; they override `chosen`. Dots lead into groups, such as `sampling.temperature`.
        schema: JSON schema of the deployment's parameters.

    Raises:
        UnknownNameError: If the deployment does not have a parameter.
        SettingsError: If an item of `given` is not `name=value`.
    """
    known = schema.get("properties", {})
    found: dict[str, Any] = json.loads(json.dumps(dict(chosen)))  # tuples become lists
    if "benchmarks" in found and "benchmarks" not in known and "benchmark" in known:
        (found["benchmark"], *more) = found.pop("benchmarks")
        if more:
            raise SettingsError("This deployment takes one `--benchmark`, or all if none is given.")
    for text in given:
        path, equals, value = text.partition("=")
        if not equals or not path:
            raise SettingsError(f"`--param {text}` should be `name=value`, such as `limit=100`.")
        *groups, name = path.split(".")
        inside: Any = found
        for group in groups:
            inside = inside.setdefault(group, {})
            if not isinstance(inside, dict):
                raise SettingsError(f"`--param {text}`: '{group}' is no group of parameters.")
        inside[name] = _value(value, known.get(path))
    for name in found:
        if name not in known:
            raise UnknownNameError("parameter", name, tuple(known))
    return found


def _value(text: str, schema: Schema | None) -> Any:  # noqa: ANN401 - any JSON
    """Return the text itself if the deployment expects a text, else its JSON value if it is JSON."""
    kinds = {option.get("type") for option in (schema or {}).get("anyOf", [schema or {}])}
    if "string" in kinds and not kinds & {"integer", "number", "boolean"}:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
