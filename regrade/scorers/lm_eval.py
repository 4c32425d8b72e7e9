"""Scorer of tasks of lm-evaluation-harness, through its filters, metrics, aggregations and groups.

Their patterns and functions are not ours, and may take any time for an answer. So generated answers are scored twice: first in
child processes with limits, to see whether it ends, and then here, all together.
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from regrade.lm_eval.answers import response_of
from regrade.lm_eval.documents import document_of
from regrade.lm_eval.downloads import forbid_downloads
from regrade.lm_eval.headline import headlines
from regrade.lm_eval.identity import content_hash
from regrade.lm_eval.index import TaskEntry, reached, task_index
from regrade.lm_eval.package import VERSION, check_installed
from regrade.lm_eval.plan import TaskPlan, plan_tasks
from regrade.lm_eval.scoring import QuestionScores, StoredQuestion, TaskScores
from regrade.processes.limited import LimitedProcesses, Limits, Stopped, available_cores
from regrade.records.columns import SCORING_SCHEMA
from regrade.records.specification import Specification
from regrade.scorers.base import TargetKind
from regrade.scorers.sessions import BatchScore, ScoringContext, Unit
from regrade.settings import HARNESS, ScorerName, ScoringOptions
from regrade.settings.errors import SettingsError
from regrade.settings.worker_limits import may_run_code
from regrade.stats.named import Aggregate

if TYPE_CHECKING:
    Row = Mapping[str, Any]

LIMITS = Limits(cpu_seconds=10, seconds=120, memory=2 << 30)
"""Limits of an answer, and of as many answers as are tried at once."""
_AT_ONCE = 100
logger = logging.getLogger("regrade.score")
_KEPT = 200
"""Longest extracted answer stored in the scores, in characters."""
_GENERATED = "generate_until"
_MOST_PROCESSES = 4
"""Processes that try the answers, if their number is not set: each imports lm_eval first."""
_INVALID = "[invalid]"
"""Result of lm_eval's filters if a pattern finds nothing."""


class Trial:
    """Child processes that score answers and forget the scores, to see whether that ends. Use as a context manager."""

    def __init__(self, name: str, index: Mapping[str, TaskEntry], processes: int) -> None:
        """Keep the arguments; the processes start when there are answers.

        Args:
            name: Task, group or tag.
            index: Result of `task_index`.
            processes: Largest number of processes.
        """
        self._plan = {
            "plan": [name, orjson.dumps(reached(name, index)).decode()],
            "may_run_code": may_run_code(),  # the processes have no variables
        }
        self._processes = processes
        self._pool: LimitedProcesses | None = None

    def __enter__(self) -> "Trial":
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.__exit__()

    def endless(
        self, task: str, facts: Mapping[str, Any], asked: Sequence[tuple[int, str, Any]]
    ) -> list[int]:
        """Return the documents at whose answers the task's filters or metrics pass the limits.

        Args:
            task: The task.
            facts: See `AskedTask`.
            asked: Number, text and responses of each document.
        """
        parts = [asked[start : start + _AT_ONCE] for start in range(0, len(asked), _AT_ONCE)]
        if self._pool is None:
            self._pool = LimitedProcesses(
                f"{__name__}:{tried.__name__}",
                LIMITS,
                processes=max(1, min(self._processes, len(parts))),
                warm_up=[self._plan],
            )
        pool, request = self._pool, {**self._plan, "task": task, "facts": dict(facts)}

        def stopped(parts: Sequence[Sequence[tuple[int, str, Any]]]) -> list[tuple[int, str, Any]]:
            ended = pool.map({**request, "asked": part} for part in parts)
            together = zip(parts, ended, strict=True)
            return [one for part, end in together if isinstance(end, Stopped) for one in part]

        return [one[0] for one in stopped([[one] for one in stopped(parts)])]


def tried(request: Mapping[str, Any]) -> None:
    """Score answers as `TaskScores.score` does, and forget the scores and errors. Runs in a child process."""
    if not request["may_run_code"]:
        forbid_downloads()
    scores = TaskScores(_planned(*request["plan"]))
    questions = [
        StoredQuestion(number, document_of(text), responses)
        for number, text, responses in request.get("asked", ())
    ]
    if questions:
        facts = request["facts"]
        several = {name: facts[name] for name in ("multiple_inputs", "multiple_targets")}
        with suppress(Exception):  # it is raised again where the answers are scored
            scores.score(request["task"], facts["kind"], questions, **several)


@cache
def _planned(name: str, entries: str) -> TaskPlan:
    import_module("regrade.lm_eval.opened")  # before the limits begin

    found = [
        TaskEntry(**{**row, "members": tuple(row["members"])}) for row in orjson.loads(entries)
    ]
    return plan_tasks(name, {entry.name: entry for entry in found})


class LmEvalScorer:
    """Scores answers to tasks of lm-evaluation-harness with the numbers of its `simple_evaluate`."""

    name: ScorerName = "lm_eval"
    version = 1
    description = (
        "What the filters of the task of lm-evaluation-harness leave of the answer, scored by the task's own code. The "
        "score is the task's first metric that is a share of right answers; the others are named values."
    )
    unparsed = "An answer in which a filter's pattern finds nothing."
    targets: TargetKind = "text"
    columns: tuple[str, ...] = (
        "index",
        "doc",
        "choices",
        "text",
        "label_logprobs",
        "label_is_greedy",
    )
    unit: Unit = "subset"
    votes = False
    code = ("regrade.lm_eval",)

    def __init__(self) -> None:
        self._scores: TaskScores | None = None

    def environment(self, options: ScoringOptions) -> Mapping[str, str]:  # noqa: ARG002 - no option decides scores
        """Return the version of lm_eval.

        Raises:
            NotInstalledError: If it is not installed.
            SettingsError: If another version is installed.
        """
        check_installed()
        return {"lm_eval": VERSION}

    @contextmanager
    def session(self, context: ScoringContext) -> Iterator[BatchScore]:
        """Load the task, without its dataset.

        Raises:
            SettingsError: If the answers are not those of a task, or the task's files are not those with which they were
                generated.
        """
        specification = context.specification
        facts = _facts(specification)
        name = specification.benchmark.name.removeprefix(HARNESS)
        path = context.options.lm_eval_path
        index = task_index(path)
        scores = TaskScores(plan_tasks(name, index))
        parameters = specification.benchmark.parameters
        if content_hash(name, index, path) != parameters["files"]:
            raise SettingsError(
                f"The files of task '{name}' are not those with which the answers were generated. Score them with the same "
                f"lm_eval ({parameters['harness']}) and the same files in `--lm-eval-path`."
            )
        self._scores = scores
        stops = _stops(specification)
        if not any(fact["kind"] == _GENERATED for fact in facts.values()):
            yield lambda batch: _scored(batch, scores, facts, stops, None)
            return
        processes = context.options.processes or min(available_cores(), _MOST_PROCESSES)
        with Trial(name, index, processes) as trial:
            yield lambda batch: _scored(batch, scores, facts, stops, trial)

    def aggregates(self, scores: pa.Table, context: ScoringContext) -> Sequence[Aggregate]:  # noqa: ARG002 - raw values were kept
        """Return the metrics of each task and group, as lm_eval aggregates them.

        For a single task, metrics that are means over its rows are left out, because the summary has them.
        """
        if self._scores is None:
            return ()
        found = self._scores
        asked = context.specification.benchmark.name.removeprefix(HARNESS)
        averaged: list[str] = []
        if list(found.plan.configs) == [asked] and context.specification.repeats == 1:
            averaged = found.means(asked) if found.is_scored(asked) else []
        return tuple(
            Aggregate(
                subset="" if list(found.plan.configs) == [name] else name,
                name=key,
                value=estimate.value,
                stderr=estimate.stderr,
                n=estimate.n,
            )
            for name, estimates in found.aggregate().items()
            for key, estimate in estimates.items()
            if key not in averaged
        )


def _facts(specification: Specification) -> Mapping[str, Mapping[str, Any]]:
    """Return the facts about each task that were stored when the requests were built."""
    benchmark = specification.benchmark
    facts = benchmark.parameters.get("tasks")
    if not benchmark.name.startswith(HARNESS) or not isinstance(facts, Mapping):
        raise SettingsError(
            f"Scorer 'lm_eval' scores answers to benchmarks '{HARNESS}TASK', not to '{benchmark.name}'. Choose another scorer "
            "with `--scorer`."
        )
    return facts


def _stops(specification: Specification) -> Sequence[str] | None:
    """Return stop texts that were set by hand; None if they are the task's."""
    sampling = specification.sampling
    return None if sampling is None or not sampling.stop else sampling.stop


def _scored(
    batch: pa.RecordBatch,
    scores: TaskScores,
    facts: Mapping[str, Mapping[str, Any]],
    stops: Sequence[str] | None,
    trial: Trial | None,
) -> pa.RecordBatch:
    """Return the scores of all answers to a task. Answers at which it would not end have none."""
    rows = batch.to_pylist()
    name = rows[0]["subset"]
    fact = facts[name]
    until = _until(scores.plan.configs[name], stops)
    by_document: dict[int, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["repeat"]):
        if row["error"] is None:
            by_document.setdefault(row["index"], []).append(row)
    asked = [
        (doc_id, answers[0]["doc"], _responses(answers, fact["kind"], until))
        for doc_id, answers in by_document.items()
    ]
    endless = trial.endless(name, fact, asked) if trial and fact["kind"] == _GENERATED else []
    if endless:
        logger.warning(
            "%d of %d questions are not scored, because task '%s' takes more than %g s of CPU time or %d MiB for the answers of "
            "each; the first is sample '%s'",
            len(endless),
            len(asked),
            name,
            LIMITS.cpu_seconds,
            LIMITS.memory >> 20,
            by_document[endless[0]][0]["sample_id"],
        )
    questions = [
        StoredQuestion(doc_id, document_of(text), responses)
        for doc_id, text, responses in asked
        if doc_id not in endless
    ]
    found: dict[int, QuestionScores] = {}
    means: list[str] = []
    chosen: Mapping[int, str] = {}
    if questions:
        results = scores.score(
            name,
            fact["kind"],
            questions,
            multiple_inputs=fact["multiple_inputs"],
            multiple_targets=fact["multiple_targets"],
        )
        found = {result.doc_id: result for result in results}
        means = scores.means(name)
        chosen = headlines(name, results, means, scores.higher_is_better(name))
    scored = [
        _row(
            row,
            found.get(row["index"]) if row["error"] is None else None,
            chosen.get(row["index"]),
            means,
            until,
        )
        for row in rows
    ]
    return pa.RecordBatch.from_pylist(scored, schema=SCORING_SCHEMA)


def _until(config: Mapping[str, Any], stops: Sequence[str] | None) -> Sequence[str]:
    """Return the stop texts, in the task's order if they are the task's."""
    own = (config.get("generation_kwargs") or {}).get(
        "until", [config.get("fewshot_delimiter", "\n\n")]
    )
    own = [own] if isinstance(own, str) else list(own or [])
    return own if stops is None or set(stops) == set(own) else stops


def _responses(rows: "Sequence[Row]", kind: str, until: Sequence[str]) -> list[list[object]]:
    """Return the responses to each request of a document, by repeat."""
    if kind == _GENERATED:
        return [[_response(row, until) or "" for row in rows]]
    ranked: list[list[tuple[float, bool]]] = [
        list(zip(row["label_logprobs"], row["label_is_greedy"], strict=True)) for row in rows
    ]
    by_request = zip(*ranked, strict=True)
    if kind == "loglikelihood":
        return [list(request) for request in by_request]
    return [[logprob for logprob, _ in request] for request in by_request]


def _response(row: "Row", until: Sequence[str]) -> str | None:
    return response_of(row["text"] or "", until, reasoning_open=bool(row["reasoning_open"]))


def _row(
    row: "Row",
    found: QuestionScores | None,
    chosen: str | None,
    means: Sequence[str],
    until: Sequence[str],
) -> dict[str, Any]:
    scored = {
        **{name: row[name] for name in ("sample_id", "repeat", "subset")},
        "truncated": row["finish_reason"] == "length",
        "outcome": "failed",
    }
    if found is None:
        return scored
    scored["metrics"] = _metrics(found.metrics, means)
    if chosen is None or chosen not in found.metrics:
        return {**scored, "outcome": "measured"}
    value = float(found.metrics[chosen])
    extracted = _chosen(row, chosen) or _filtered(found, chosen)
    generated = row["label_logprobs"] is None
    outcome = "unparsed" if generated and extracted is None and value == 0 else "scored"
    if row["text"] is not None and _response(row, until) is None:
        outcome = "unfinished"
    return {**scored, "value": value, "extracted": extracted, "outcome": outcome}


def _chosen(row: "Row", chosen: str) -> str | None:
    """Return the choice that counts as the model's for a metric: the likeliest, for `acc_norm` relative to its length."""
    metric = chosen.rpartition(",")[0]
    logprobs, choices = row["label_logprobs"], row["choices"]
    if metric not in ("acc", "acc_norm") or not logprobs or len(choices) < 2:
        return None
    if len(logprobs) < len(choices) or not all(choices):
        return None
    lengths = [len(choice) if metric == "acc_norm" else 1 for choice in choices]
    pairs = zip(logprobs, lengths, strict=False)  # further log-probabilities are unconditional
    shares = [logprob / length for logprob, length in pairs]
    return str(choices[shares.index(max(shares))])[:_KEPT]


def _filtered(found: QuestionScores, chosen: str) -> str | None:
    """Return the answer after the metric's filter; None if nothing is left."""
    response = found.filtered[chosen.rpartition(",")[2]][0]
    while isinstance(response, list) and response:
        response = response[0]
    if not isinstance(response, str) or response == _INVALID:
        return None
    return response[:_KEPT]


def _metrics(values: Mapping[str, Any], means: Sequence[str]) -> str:
    """Return the metrics of a document as JSON.

    Metrics that are not means are put into lists, so that they are not averaged.
    """
    return json.dumps(
        {
            key: _plain(value) if key in means else [_plain(value)]
            for key, value in sorted(values.items())
        }
    )


def _plain(value: Any) -> Any:  # noqa: ANN401 - numbers of numpy, tuples, lists
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    return value if isinstance(value, bool | int | float | str) or value is None else str(value)


scorer = LmEvalScorer
