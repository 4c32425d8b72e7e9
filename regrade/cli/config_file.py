"""Parameters of a flow in a YAML file, and what may be written in short there."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from regrade.errors import SettingsError
from regrade.problems import one_line, shown
from regrade.settings import HARNESS, GoodputLimits

_GROUPS = {
    "sampling": "{temperature: 0.6}",
    "prompt": "{n_shots: 5}",
    "engine": "{kind: openai}",
    "reuse": "{fresh: true}",
    "lm_eval": "{tasks: [arc_challenge]}",
    "scoring": "{sandbox: landlock}",
    "judge": "{judges: [org/judge-32b]}",
    "price": "{input: 0.15, output: 0.60}",
    "limits": "{ttft_p99: 2}",
    "gate": "{max_drop: 1}",
}
"""Parameters that are groups of settings -> an example."""
_LISTS = {
    "benchmarks": "[gsm8k, mmlu]",
    "suite": "[core]",
    "datasets": "[{name: capitals, path: capitals.jsonl}]",
    "sources": "[{benchmark: gsm8k, path: test.jsonl}]",
}
"""Parameters that are lists -> an example."""
_SHORT = ("sampling", "engine", "benchmarks", "suite")
"""Groups and lists of parameters that may also be a single text."""


def read_config(path: Path) -> dict[str, Any]:
    """Return the parameters in a YAML file.

    Raises:
        SettingsError: If it cannot be read, holds no parameters, or one of them is no group or list where that is expected.
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
    for names, kind, what in ((_GROUPS, dict, "a group of settings"), (_LISTS, list, "a list")):
        for name in names.keys() & content.keys():
            value = content[name]
            short = name in _SHORT and isinstance(value, str)
            if value is not None and not short and not isinstance(value, kind):
                raise SettingsError(
                    f"`{name}:` in '{path}' should be {what}, such as `{name}: {names[name]}`, not {shown(value)}."
                )
    return content


def spelled_out(file: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that a file may write in short, as the schema of a deployment has them."""
    spelled: dict[str, Any] = {}
    if isinstance(file.get("sampling"), str):
        spelled["sampling"] = {"defaults": file["sampling"]}
    if isinstance(file.get("engine"), str):
        spelled["engine"] = {"kind": file["engine"]}
    if isinstance(file.get("benchmarks"), str):
        spelled["benchmarks"] = [file["benchmarks"]]
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
    own = group.get("tasks") or []
    if tasks and isinstance(own, list):
        group["tasks"] = [*own, *tasks]
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
