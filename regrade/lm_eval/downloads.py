"""Metrics that tasks ask the Hub for: `evaluate.load` downloads a Python file and runs it."""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Never

from regrade.lm_eval.refusals import CODE_OF_THE_HUB
from regrade.settings.worker_limits import RefusedParameterError


def forbid_downloads() -> None:
    """Make `evaluate.load` raise an error in this process."""
    if find_spec("evaluate") is not None:
        library: Any = import_module("evaluate")
        library.load = _refused


def downloads_metric(config: Mapping[str, Any]) -> bool:
    """Return True if lm_eval asks the Hub for a metric of a task.

    Args:
        config: Configuration of the task, functions resolved.
    """
    from lm_eval.api import metrics  # noqa: F401 - registers the metrics of lm_eval
    from lm_eval.api.registry import metric_registry

    if config.get("process_results") is not None:
        return False  # its names of metrics are the task's own
    return any(
        isinstance(metric["metric"], str)
        and (metric.get("hf_evaluate") is True or metric["metric"] not in metric_registry)
        for metric in config.get("metric_list") or []
    )


def _refused(path: str, *_: object, **__: object) -> Never:
    raise RefusedParameterError(f"the metric '{path}' {CODE_OF_THE_HUB}")
