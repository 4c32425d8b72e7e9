"""Verdicts of earlier judge runs on the same texts: an answer set that grew, or more of its questions, is not judged again."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from regrade.answers.base import Repository
from regrade.answers.sets import AnswerSet, readable_sets
from regrade.judging.questions import PROMPT
from regrade.records import Completion, Sample
from regrade.records.columns import GENERATION_SCHEMA, generation_row
from regrade.records.specification import Specification

_REUSED = (
    "text",
    "reasoning",
    "reasoning_open",
    "finish_reason",
    "prompt",
    "prompt_kind",
)
"""Columns of a verdict that are taken over. Its tokens and times are counted in the run that paid for them."""


def known_rows(
    specification: Specification,
    missing: Sequence[tuple[Sample, int]],
    repository: Repository,
) -> list[dict[str, Any]]:
    """Return rows for the missing verdicts that earlier runs have: the same judge, rubric and settings, and equal prompts.

    Args:
        specification: Specification of the judge run.
        missing: Pairs of sample and repeat.
        repository: Repository with the earlier runs.

    Raises:
        DamagedAnswersError: If the verdicts of an earlier run do not match their manifest.
    """
    wanted = {(sample.id, repeat): sample for sample, repeat in missing if sample.error is None}
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for earlier in _alike(specification, repository):
        if len(found) == len(wanted):
            break
        for batch in earlier.batches(GENERATION_SCHEMA.names):
            for row in batch.to_pylist():
                key = (row["sample_id"], row["repeat"])
                sample = wanted.get(key)
                if sample is None or key in found or not _is_same(row, sample):
                    continue
                verdict = Completion(0, **{name: row[name] for name in _REUSED})
                found[key] = generation_row(sample, row["repeat"], verdict)
    return list(found.values())


def _alike(specification: Specification, repository: Repository) -> Iterator[AnswerSet]:
    """Yield judge runs that differ at most in which answers of a set they judge, the newest first."""
    head = repository.head()
    if head is None:
        return
    sets, _ = readable_sets(repository, head, benchmark=specification.benchmark.name)
    ours = _without_choice(specification)
    for answers in reversed(sets):
        theirs = answers.manifest.specification
        if theirs.answer_set_id != specification.answer_set_id and _without_choice(theirs) == ours:
            yield answers


def _without_choice(specification: Specification) -> Mapping[str, Any]:
    """Return a specification without what says which of a model's answers are judged."""
    document = specification.model_dump(mode="json")
    benchmark = document["benchmark"]
    run = dict(benchmark["parameters"].get("judge_run") or {})
    for side in ("judged", "baseline"):
        if run.get(side):
            run[side] = {**run[side], "shards": ""}
    run["criteria"] = None
    parameters = {**benchmark["parameters"], "judge_run": run}
    changes = {"source_revision": "", "limit": None, "parameters": parameters}
    return {**document, "benchmark": {**benchmark, **changes}}


def _is_same(row: Mapping[str, Any], sample: Sample) -> bool:
    """Return True if a row is the verdict on a sample's text: its whole prompt stands in the prompt that was sent."""
    text = str(sample.fields[PROMPT])
    if row["error"] is not None or row["text"] is None or not row["prompt"]:
        return False
    if row["prompt_kind"] == "messages":
        messages = orjson.loads(row["prompt"])
        return bool(messages[-1]["content"] == text)
    return text in row["prompt"]
