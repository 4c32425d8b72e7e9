"""Names of lm-evaluation-harness, explained for people who choose one."""

from collections.abc import Mapping
from dataclasses import dataclass

from regrade.lm_eval.index import TaskEntry, leaves
from regrade.lm_eval.refusals import MIXED_METHODS, SENTENCES
from regrade.settings import HARNESS

_ASKS: Mapping[str, str] = {
    "generate_until": "generates text",
    "multiple_choice": "ranks choices",
    "loglikelihood": "ranks a continuation",
    "loglikelihood_rolling": "measures the likelihood of texts",
}


@dataclass(frozen=True, slots=True)
class Listed:
    """A task, group or tag."""

    name: str
    """Name of the benchmark."""
    kind: str
    asks: str
    """Kind of its requests in words; "" if its tasks have several kinds."""
    datasets: tuple[str, ...]
    """Hub datasets of its tasks, at most three."""
    tasks: int
    """Number of its tasks that have a yaml file."""
    cannot_run: str | None
    """Reason why it cannot be run."""


def described(entry: TaskEntry, index: Mapping[str, TaskEntry]) -> Listed:
    """Return a name with the kind of its requests, its datasets, and the reason if it cannot be run."""
    tasks = leaves(entry.name, index)
    kinds = {task.output_type or "" for task in tasks}
    refused = next((task for task in tasks if task.refusal is not None), None)
    reason = None
    if refused is not None and refused.refusal is not None:
        sentence = SENTENCES[refused.refusal]
        reason = sentence if refused.name == entry.name else f"task '{refused.name}': {sentence}"
    elif "generate_until" in kinds and len(kinds) > 1:
        reason = MIXED_METHODS
    datasets = sorted({task.dataset for task in tasks if task.dataset})
    return Listed(
        name=f"{HARNESS}{entry.name}",
        kind=entry.kind,
        asks=_ASKS.get(kinds.pop(), "") if len(kinds) == 1 else "",
        datasets=tuple(datasets[:3]),
        tasks=len(tasks),
        cannot_run=reason,
    )


def line_of(listed: Listed) -> str:
    """Return a name as a line of text."""
    kind = listed.kind if listed.kind == "task" else f"{listed.kind} of {listed.tasks} tasks"
    parts = [kind, listed.asks, ", ".join(listed.datasets)]
    line = f"{listed.name}  {' · '.join(filter(None, parts))}"
    return line if listed.cannot_run is None else f"{line} · cannot be run: {listed.cannot_run}"
