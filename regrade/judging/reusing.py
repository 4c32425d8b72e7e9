"""Verdicts of earlier runs of a judge on the same texts, which are not asked for again.

More answers, questions, tokens or verdicts of each answer ask only for what is new.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from regrade.answers.base import Repository
from regrade.answers.sets import AnswerSet, intact_sets
from regrade.judging.questions import PROMPT
from regrade.judging.stored import json_in
from regrade.records import Completion, Message, Sample
from regrade.records.columns import GENERATION_SCHEMA, generation_row
from regrade.records.rubrics.facts import judge_run
from regrade.records.specification import Specification

_REUSED = ("text", "reasoning", "reasoning_open", "finish_reason", "prompt", "prompt_kind", "error")
"""Columns of a verdict that are taken over. Its tokens and times are counted in the run that paid for them."""


def as_begun(specification: Specification, repository: Repository) -> Specification:
    """Return the specification of a judge run as it was begun: each run of such a judge used to have an id of its own.

    Of several, the one with the most verdicts is continued, of equal ones the oldest.
    """
    begun = [
        answers.manifest
        for answers in _judge_runs(specification, repository)
        if answers.manifest.specification.as_told == specification
    ]
    most = max(begun, key=lambda manifest: manifest.rows - manifest.failed, default=None)
    return specification if most is None else most.specification


def known_rows(
    specification: Specification, missing: Sequence[tuple[Sample, int]], repository: Repository
) -> list[dict[str, Any]]:
    """Return rows for the missing verdicts that earlier runs have: the same judge, rubric and settings, and equal prompts.

    A run with fewer tokens has those that it was not too short for, and one with fewer or more verdicts of each answer has
    the first of them.

    Args:
        specification: Specification of the judge run.
        missing: Pairs of sample and repeat.
        repository: Repository with the earlier runs.

    Raises:
        DamagedAnswersError: If the verdicts of an earlier run do not match their manifest.
    """
    run = judge_run(specification)
    if run is None:
        return []
    wanted = {(sample.id, repeat): sample for sample, repeat in missing if sample.error is None}
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for earlier in _alike(specification, repository):
        if len(found) == len(wanted):
            break
        theirs = earlier.manifest.specification
        shorter = _max_tokens(theirs) < _max_tokens(specification)
        asked = judge_run(theirs) or run
        for batch in earlier.batches(GENERATION_SCHEMA.names):
            for row in batch.to_pylist():
                judged, judge, part = asked.place(row["repeat"])
                key = (row["sample_id"], (judged * run.judge_repeats + judge) * run.parts + part)
                sample = wanted.get(key)
                if sample is None or key in found or judge >= run.judge_repeats:
                    continue
                if not _is_same(row, sample) or (shorter and row["finish_reason"] == "length"):
                    continue
                verdict = Completion(
                    0,
                    **{name: row[name] for name in _REUSED},
                    error_permanent=bool(row["error_permanent"]),
                )
                found[key] = generation_row(sample, key[1], verdict)
    return list(found.values())


def _alike(specification: Specification, repository: Repository) -> Iterator[AnswerSet]:
    """Yield runs of the same judge that differ in nothing that a verdict depends on, the newest first."""
    ours = _without_choice(specification)
    for answers in reversed(_judge_runs(specification, repository)):
        theirs = answers.manifest.specification
        if theirs.answer_set_id == specification.answer_set_id:
            continue
        if _max_tokens(theirs) <= _max_tokens(specification) and _without_choice(theirs) == ours:
            yield answers


def _judge_runs(specification: Specification, repository: Repository) -> list[AnswerSet]:
    """Return the answer sets of the benchmark of a judge run, oldest first."""
    head = repository.head()
    if head is None:
        return []
    return intact_sets(repository, head, benchmark=specification.benchmark.name)


def _max_tokens(specification: Specification) -> int:
    return specification.sampling.max_tokens if specification.sampling else 0


def _without_choice(specification: Specification) -> Mapping[str, Any]:
    """Return a specification without what says which answers are judged, how often, and in how many tokens at most."""
    document = specification.as_told.model_dump(mode="json")
    benchmark = document["benchmark"]
    run = dict(benchmark["parameters"].get("judge_run") or {})
    for side in ("judged", "baseline"):
        if run.get(side):
            run[side] = {**run[side], "shards": ""}
    run |= {"criteria": None, "judge_repeats": 1}
    parameters = {**benchmark["parameters"], "judge_run": run}
    changes = {"source_revision": "", "limit": None, "parameters": parameters}
    sampling = document["sampling"] and {**document["sampling"], "max_tokens": 0}
    return {**document, "benchmark": {**benchmark, **changes}, "sampling": sampling, "repeats": 1}


def _is_same(row: Mapping[str, Any], sample: Sample) -> bool:
    """Return True if a row is the verdict on a sample's text: its whole prompt stands in the prompt that was sent.

    A request that cannot succeed has no verdict, and is not sent again.
    """
    wanted: Sequence[Message] = sample.fields[PROMPT]
    answered = row["text"] is not None if row["error"] is None else row["error_permanent"]
    if not answered or not row["prompt"]:
        return False
    if row["prompt_kind"] == "messages":
        found = json_in(row["prompt"])
        messages = found if isinstance(found, list) else []
        last = messages[-1] if messages else None
        if isinstance(last, dict) and last.get("role") == "assistant" != wanted[-1]["role"]:
            del messages[-1]  # `--prefill`, the same in both runs
        return bool(messages[-len(wanted) :] == list(wanted))
    return all(message["content"] in row["prompt"] for message in wanted)
