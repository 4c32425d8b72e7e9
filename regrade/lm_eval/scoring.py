"""Scores of stored answers, through the filters, metrics, aggregations and groups of lm_eval."""

import math
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from regrade.lm_eval.package import quiet
from regrade.lm_eval.plan import TaskPlan, not_loaded
from regrade.lm_eval.requests import RequestKind
from regrade.lm_eval.seeds import seeded

if TYPE_CHECKING:
    from regrade.lm_eval.opened import StoredTask

BOOTSTRAP_ITERATIONS = 100_000
"""Resamples for the standard error of metrics without a formula; the default of `simple_evaluate`."""
_NO_PROCESSES = "DISABLE_MULTIPROC"
"""Environment variable of lm_eval: bootstrap in this process. The numbers are the same."""


@dataclass(frozen=True, slots=True)
class StoredQuestion:
    """A document with the answers to it."""

    doc_id: int
    document: Mapping[str, Any]
    responses: Sequence[Sequence[object]]
    """Responses to each request, by repeat: a text; `(logprob, is_greedy)`; or the log-probability of a text."""


@dataclass(frozen=True, slots=True)
class QuestionScores:
    """Results of a document."""

    doc_id: int
    metrics: Mapping[str, Any]
    """Values by `metric,filter`, as `process_results` returns them: numbers, or the input of the aggregation."""
    filtered: Mapping[str, Sequence[object]]
    """Response to each request after each filter."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A metric of a task or group."""

    value: float
    stderr: float | None
    """None if lm_eval has no standard error for it."""
    n: int
    """Number of documents."""


@dataclass(slots=True)
class TaskScores:
    """Results of the tasks of a name that are scored one after the other, then together."""

    plan: TaskPlan
    _results: dict[str, Any] = field(default_factory=dict)

    def score(
        self,
        name: str,
        kind: RequestKind,
        questions: Sequence[StoredQuestion],
        *,
        multiple_inputs: int,
        multiple_targets: int,
    ) -> list[QuestionScores]:
        """Score all answers to a task at once, since filters may compare them.

        Args:
            name: The task.
            kind: Kind of its requests.
            questions: Its documents with all their answers, at least one document.
            multiple_inputs: See `AskedTask`.
            multiple_targets: See `AskedTask`.

        Returns:
            The scores of each document, ordered by the number of the document.

        Raises:
            SettingsError: If the code of the task fails.
        """
        from regrade.lm_eval.opened import open_stored_task

        ordered = sorted(questions, key=lambda question: question.doc_id)
        task = open_stored_task(self.plan.configs[name], [answer.document for answer in ordered])
        task.multiple_input, task.multiple_target = multiple_inputs, multiple_targets
        with quiet(), seeded():
            try:
                scores = _scored(name, kind, task, ordered)
            except Exception as error:
                raise not_loaded(name, error) from error
        raw: dict[tuple[str, str], list[Any]] = defaultdict(list)
        for filter_name in scores[0].filtered:
            for score in scores:
                for key, value in score.metrics.items():
                    metric, _, its_filter = key.rpartition(",")
                    if its_filter == filter_name:
                        raw[metric, its_filter].append(value)
        self._results[name] = {"task": task, "raw_metrics": raw, "logged_samples": []}
        return scores

    def is_scored(self, name: str) -> bool:
        """Return True if answers to a task were scored."""
        return name in self._results

    def means(self, name: str) -> list[str]:
        """Return the metrics (`metric,filter`) of a scored task that are means over its documents, in its order."""
        from lm_eval.api.metrics import mean

        result = self._results[name]
        aggregations = result["task"].aggregation()
        return [
            metric_key(metric, filter_name)
            for metric, filter_name in result["raw_metrics"]
            if aggregations.get(metric, mean) is mean
        ]

    def higher_is_better(self, name: str) -> Mapping[str, Any]:
        """Return True by metric of a scored task if higher values are better."""
        found: Mapping[str, Any] = self._results[name]["task"].higher_is_better()
        return found

    def aggregate(
        self, *, bootstrap_iterations: int | None = None
    ) -> dict[str, dict[str, Estimate]]:
        """Return the metrics of each task that was scored and of each group, by `metric,filter`."""
        from lm_eval.evaluator_utils import _process_results

        iterations = BOOTSTRAP_ITERATIONS if bootstrap_iterations is None else bootstrap_iterations
        ordered = {name: self._results[name] for name in self.plan.configs if name in self._results}
        with quiet(), _bootstrap_here():
            results = _process_results(ordered, dict(self.plan.groups), iterations)
        return {name: dict(_estimates(found)) for name, found in results.metrics.items() if found}


def metric_key(metric: str, filter_name: str) -> str:
    """Return the name that lm_eval gives a metric of a filter: `metric,filter`."""
    return f"{metric},{filter_name}"


def _scored(
    name: str, kind: RequestKind, task: "StoredTask", questions: Sequence[StoredQuestion]
) -> list[QuestionScores]:
    from lm_eval.api.instance import Instance

    instances: list[Any] = []
    by_question: list[list[Any]] = []
    for question in questions:
        asked = [
            Instance(
                request_type=kind,
                doc=question.document,
                arguments=(),
                idx=index,
                metadata=(name, question.doc_id, len(responses)),
                resps=list(responses),
            )
            for index, responses in enumerate(question.responses)
        ]
        by_question.append(asked)
        instances += asked
    task._instances = instances
    task.apply_filters()
    metrics: list[dict[str, Any]] = [{} for _ in questions]
    for filter_name in instances[0].filtered_resps:
        for question, asked, found in zip(questions, by_question, metrics, strict=True):
            responses = [instance.filtered_resps[filter_name] for instance in asked]
            values = task.process_results(question.document, responses)
            found |= {metric_key(metric, filter_name): value for metric, value in values.items()}
    return [
        QuestionScores(
            question.doc_id,
            found,
            {
                filter_name: [instance.filtered_resps[filter_name] for instance in asked]
                for filter_name in asked[0].filtered_resps
            },
        )
        for question, asked, found in zip(questions, by_question, metrics, strict=True)
    ]


def _estimates(found: Mapping[str, Any]) -> Iterator[tuple[str, Estimate]]:
    for key, value in found.items():
        metric, comma, filter_name = key.rpartition(",")
        if not comma or metric.endswith("_stderr") or not isinstance(value, int | float):
            continue
        stderr = found.get(f"{metric}_stderr,{filter_name}")
        known = isinstance(stderr, int | float) and not math.isnan(stderr)
        counts = found.get("sample_count", {})
        yield (
            key,
            Estimate(
                float(value),
                float(stderr) if known and stderr is not None else None,
                int(counts.get(key, found["sample_len"])),
            ),
        )


@contextmanager
def _bootstrap_here() -> Iterator[None]:
    """Make lm_eval resample in this process. By default it forks one process per core, although threads run."""
    before = os.environ.get(_NO_PROCESSES)
    os.environ[_NO_PROCESSES] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_NO_PROCESSES]
        else:
            os.environ[_NO_PROCESSES] = before
