"""Options of `regrade trigger` for following a run."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cyclopts import Group, Parameter

from regrade.cli.output import ReportFiles
from regrade.settings.errors import SettingsError, UnknownNameError
from regrade.settings.paths import Schema

RUN = Group("The run", sort_key=0)


@Parameter(name="*", group=RUN)
@dataclass(frozen=True, kw_only=True)
class FollowOptions(ReportFiles):
    """Options for waiting, and report files."""

    wait: bool = False
    """Follow the run until it ends; the exit code is the verdict."""
    start_timeout: float = 3600.0
    """Seconds to wait for a worker to start the run, before it is cancelled."""
    timeout: float | None = None
    """Seconds to wait for the run to end, before it is cancelled."""
    patience: float = 180.0
    """Seconds for which the Prefect server may be down."""
    id_file: Path | None = None
    """File for the flow run's id, written when the run is created."""

    def check(self) -> None:
        """Refuse seconds that are none.

        Raises:
            SettingsError: If there are some.
        """
        for name in ("start_timeout", "timeout", "patience"):
            seconds = getattr(self, name)
            if seconds is not None and not seconds >= 0:  # which a `nan` is not either
                option = f"--{name.replace('_', '-')}"
                raise SettingsError(f"`{option}` should be 0 or more, not {seconds:g}.")


# Convert options to the parameters of a deployment, checked against its JSON schema.


def fitting(chosen: Mapping[str, Any], given: Iterable[str], schema: Schema) -> dict[str, Any]:
    """Return the parameters to send to a deployment.

    Args:
        chosen: Parameters from options.
        given: `name=value` each; they override `chosen`. A dot separates group and name: `sampling.temperature=0`.
        schema: JSON schema of the deployment's parameters.

    Raises:
        UnknownNameError: If the deployment does not have a parameter.
        SettingsError: If an item of `given` is not `name=value`.
    """
    known = schema.get("properties", {})
    parameters: dict[str, Any] = json.loads(json.dumps(dict(chosen)))  # tuples become lists
    if "benchmarks" in parameters and "benchmarks" not in known and "benchmark" in known:
        (parameters["benchmark"], *more) = parameters.pop("benchmarks")
        if more:
            raise SettingsError(
                "This deployment takes at most one `--benchmark`; without it, all benchmarks."
            )
    for text in given:
        path, value = name_and_value(text)
        *groups, name = path.split(".")
        target: Any = parameters
        for group in groups:
            target = target.setdefault(group, {})
            if not isinstance(target, dict):
                raise SettingsError(f"`--param {text}`: '{group}' is not a group of parameters.")
        target[name] = _value(value, known.get(path))
    for name in parameters:
        if name not in known:
            raise UnknownNameError("parameter", name, tuple(known))
    return parameters


def name_and_value(text: str) -> tuple[str, str]:
    """Return the parts of `name=value`.

    Raises:
        SettingsError: If it is not of this form.
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise SettingsError(f"`--param {text}` should be `name=value`, such as 'limit=100'.")
    return name, value


def _value(text: str, schema: Schema | None) -> Any:  # noqa: ANN401 - any JSON
    """Parse a value as JSON; it stays text if it is not JSON, or if the deployment expects text."""
    kinds = {option.get("type") for option in (schema or {}).get("anyOf", [schema or {}])}
    if "string" in kinds and not kinds & {"integer", "number", "boolean"}:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
