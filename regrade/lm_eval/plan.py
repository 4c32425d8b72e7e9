"""Tasks of a name, with their configurations and groups, before any document is read."""

import copy
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regrade.lm_eval.downloads import downloads_metric, forbid_downloads
from regrade.lm_eval.identity import task_files
from regrade.lm_eval.index import TaskEntry, entry_of, leaves
from regrade.lm_eval.package import quiet
from regrade.lm_eval.python_files import runs_text
from regrade.lm_eval.refusals import CODE_OF_THE_HUB, MIXED_METHODS, SENTENCES, refusal_of
from regrade.settings.errors import SettingsError
from regrade.settings.worker_limits import may_run_code

if TYPE_CHECKING:
    from lm_eval.api.group import Group
    from lm_eval.api.task import ConfigurableTask

_LOCK = threading.Lock()
"""Held while a name of lm_eval is replaced."""


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """The tasks of a name, in the order of lm_eval."""

    name: str
    configs: Mapping[str, Mapping[str, Any]]
    """Configuration of each task: the yaml file with its included files, functions resolved."""
    groups: "Mapping[str, Group]"
    """Groups, which aggregate the results of their tasks."""


def plan_tasks(name: str, index: Mapping[str, TaskEntry]) -> TaskPlan:
    """Return the tasks of a name.

    Args:
        name: Task, group or tag.
        index: Result of `task_index`.

    Raises:
        SettingsError: If there is no such name, a task cannot be run (in one sentence), or its Python files cannot be
            imported.
    """
    entry = entry_of(name, index)
    found = leaves(name, index)
    for leaf in found:
        if leaf.refusal is not None:
            raise cannot_run(leaf.name, SENTENCES[leaf.refusal])
    # Also for tasks that a group defines itself; importing their code may run more.
    if any(runs_text(path) for path in task_files(name, index) if path.suffix == ".py"):
        raise cannot_run(name, SENTENCES["unsafe_code"])
    if len({leaf.output_type == "generate_until" for leaf in found}) > 1:
        raise cannot_run(name, MIXED_METHODS)
    if not may_run_code():
        forbid_downloads()
    manager = task_manager(index)
    with quiet(), _unopened() as configs:
        try:
            loaded = manager.load([entry.name])
        except Exception as error:
            raise not_loaded(name, error) from error
    tasks = {task: configs[task] for task in loaded["tasks"]}
    for task, config in tasks.items():
        refusal = refusal_of(config)
        if refusal is not None:
            raise cannot_run(task, SENTENCES[refusal])
        if not may_run_code() and downloads_metric(config):
            raise cannot_run(task, f"its metric {CODE_OF_THE_HUB}")
    return TaskPlan(name, tasks, loaded.get("groups", {}))


def cannot_run(task: str, reason: str) -> SettingsError:
    """Return the error of a task that cannot be run."""
    return SettingsError(f"lm-evaluation-harness' task '{task}' cannot be run: {reason}.")


def not_loaded(task: str, error: Exception) -> SettingsError:
    """Return the error of a task whose files, or the Python code in them, failed."""
    lines = str(error).strip().splitlines() or [""]
    problem = f"{type(error).__name__}: {lines[0][:300].rstrip('.')}"
    return SettingsError(
        f"lm-evaluation-harness' task '{task}' cannot be loaded here ({problem}). If a package is missing, install it; "
        "tasks of your own are read from `--lm-eval-path`."
    )


def task_manager(index: Mapping[str, TaskEntry]) -> Any:  # noqa: ANN401 - lm_eval is imported only here
    """Return lm_eval's task manager with the index of `task_index`."""
    from lm_eval.tasks import TaskManager
    from lm_eval.tasks._index import Entry, Kind

    kinds = {"task": Kind.TASK, "group": Kind.GROUP, "tag": Kind.TAG}
    manager = TaskManager(include_defaults=False)
    manager._index = {
        entry.name: Entry(
            name=entry.name,
            kind=kinds[entry.kind] if entry.refusal != "class" else Kind.PY_TASK,
            yaml_path=None if entry.path is None else Path(entry.path),
            tags=set(entry.members) if entry.kind == "tag" else set(),
        )
        for entry in index.values()
    }
    return manager


@contextmanager
def _unopened() -> Iterator[dict[str, dict[str, Any]]]:
    """Make lm_eval create tasks without reading their documents; yield their configurations by name."""
    from lm_eval.api.task import ConfigurableTask, TaskConfig
    from lm_eval.tasks import _factory

    configs: dict[str, dict[str, Any]] = {}

    def unopened(config: dict[str, Any]) -> "ConfigurableTask":
        configs[config["task"]] = copy.deepcopy(config)
        task: ConfigurableTask = ConfigurableTask.__new__(ConfigurableTask)
        task._config = TaskConfig(**config)
        return task

    with _LOCK:
        factory: Any = _factory
        factory.ConfigurableTask = unopened
        try:
            yield configs
        finally:
            factory.ConfigurableTask = ConfigurableTask
