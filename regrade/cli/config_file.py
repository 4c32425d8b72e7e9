"""Parameters of a flow in a YAML file, and what may be written in short there."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from regrade.errors import SettingsError
from regrade.job import one_line
from regrade.settings import HARNESS, GoodputLimits


def read_config(path: Path) -> dict[str, Any]:
    """Return the parameters in a YAML file.

    Raises:
        SettingsError: If it cannot be read, or holds no parameters.
    """
    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise SettingsError(f"Configuration '{path}' cannot be read: {error.strerror}.") from error
    except yaml.YAMLError as error:
        raise SettingsError(
            f"Configuration '{path}' is not YAML: {' '.join(str(error).split())}."
        ) from error
    if not isinstance(content, dict):
        raise SettingsError(
            f"Configuration '{path}' should be a mapping of parameters, such as `model: ...`."
        )
    return content


def spelled_out(file: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that a file may write in short, as the schema of a deployment has them."""
    spelled: dict[str, Any] = {}
    if isinstance(file.get("sampling"), str):
        spelled["sampling"] = {"defaults": file["sampling"]}
    if isinstance(file.get("goodput"), str):
        spelled["goodput"] = _limits(file["goodput"])
    prompt = file.get("prompt")
    if isinstance(prompt, Mapping) and isinstance(prompt.get("thinking"), bool):
        # YAML 1.1 reads the words `on` and `off` as true and false.
        spelled["prompt"] = {**prompt, "thinking": "on" if prompt["thinking"] else "off"}
    return spelled


def harness_tasks(chosen: Mapping[str, Any], path: str | None) -> dict[str, Any]:
    """Return the parameters in which tasks of lm-evaluation-harness are chosen, given among all benchmarks."""
    names = [str(name) for name in chosen.get("benchmarks") or ()]
    tasks = [name.removeprefix(HARNESS) for name in names if name.startswith(HARNESS)]
    group = dict(chosen.get("lm_eval") or {})
    if tasks:
        group["tasks"] = [*group.get("tasks", ()), *tasks]
    if path is not None:
        group["path"] = path
    if not group:
        return {}
    others = [name for name in names if not name.startswith(HARNESS)]
    return {"lm_eval": group} | ({"benchmarks": others} if "benchmarks" in chosen else {})


def _limits(text: str) -> dict[str, Any]:
    """Return the limits of goodput that a text names.

    Raises:
        SettingsError: If it is no list of latencies with limits.
    """
    try:
        return GoodputLimits.model_validate(text).model_dump(exclude_none=True)
    except ValidationError as error:
        raise SettingsError(f"`goodput`: {one_line(error)}") from error
