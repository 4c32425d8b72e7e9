"""Scorer of tasks of lm-evaluation-harness, through its filters, metrics, aggregations and groups."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from regrade.lm_eval.answers import response_of
from regrade.lm_eval.documents import document_of
from regrade.lm_eval.headline import headline
from regrade.lm_eval.identity import content_hash
from regrade.lm_eval.index import task_index
from regrade.lm_eval.package import VERSION, check_installed
from regrade.lm_eval.plan import plan_tasks
from regrade.lm_eval.scoring import QuestionScores, StoredQuestion, TaskScores
from regrade.records.columns import SCORING_SCHEMA
from regrade.records.specification import Specification
from regrade.scorers.base import TargetKind
from regrade.scorers.sessions import BatchScore, ScoringContext, Unit
from regrade.settings import HARNESS, ScorerName, ScoringOptions
from regrade.settings.errors import SettingsError
from regrade.stats.named import Aggregate

if TYPE_CHECKING:
    Row = Mapping[str, Any]

_KEPT = 200
"""Longest extracted answer stored in the scores, in characters."""
_INVALID = "[invalid]"
"""Result of lm_eval's filters if a pattern finds nothing."""


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
        yield lambda batch: _scored(batch, scores, facts, stops)

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
) -> pa.RecordBatch:
    """Return the scores of all answers to a task."""
    rows = batch.to_pylist()
    name = rows[0]["subset"]
    fact = facts[name]
    until = _until(scores.plan.configs[name], stops)
    by_document: dict[int, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["repeat"]):
        if row["error"] is None:
            by_document.setdefault(row["index"], []).append(row)
    questions = [
        StoredQuestion(
            doc_id, document_of(answers[0]["doc"]), _responses(answers, fact["kind"], until)
        )
        for doc_id, answers in by_document.items()
    ]
    found: dict[int, QuestionScores] = {}
    means: list[str] = []
    chosen = None
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
        chosen = headline(name, results, means, scores.higher_is_better(name))
    scored = [
        _row(row, found.get(row["index"]) if row["error"] is None else None, chosen, means, until)
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
    if kind == "generate_until":
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
