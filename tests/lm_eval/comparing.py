"""Numbers of regrade's harness beside those of `simple_evaluate`, for the same responses."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import lm_eval

from regrade.lm_eval.documents import document_of
from regrade.lm_eval.index import TaskEntry
from regrade.lm_eval.plan import plan_tasks, task_manager
from regrade.lm_eval.requests import AskedQuestion, AskedTask, Prompt, ask
from regrade.lm_eval.scoring import Estimate, QuestionScores, StoredQuestion, TaskScores
from tests.lm_eval.rows import datasets
from tests.lm_eval.stand_in import StandIn, chat_text, cut, generated, ranked, rolled

ITERATIONS = 300
"""Bootstrap samples; 100,000 take minutes."""
Numbers = tuple[Mapping[str, Sequence[QuestionScores]], Mapping[str, Mapping[str, Estimate]]]


def rendered(prompt: Prompt) -> str:
    """Return a prompt as the stand-in renders it."""
    if isinstance(prompt, str):
        return prompt
    return chat_text(prompt, prompt[-1]["role"] != "assistant")


def answered(task: AskedTask, question: AskedQuestion) -> StoredQuestion:
    """Return a document with the stand-in's answers to it."""
    responses: list[list[object]]
    if task.kind == "generate_until":
        prompt, stops = rendered(question.contexts[0]), task.generation["until"]
        responses = [[cut(generated(prompt, repeat), stops) for repeat in range(task.repeats)]]
    elif task.kind == "loglikelihood":
        pairs = zip(question.contexts, question.continuations, strict=True)
        responses = [[ranked(rendered(context), text)] for context, text in pairs]
    else:
        responses = [[rolled(text)] for text in question.continuations]
    return StoredQuestion(question.doc_id, document_of(question.document), responses)


def ours(spec: str, index: Mapping[str, TaskEntry], data: Any = datasets) -> Numbers:
    """Return our numbers of a task, by task and by group or task."""
    name, _, chat = spec.partition("@")
    plan = plan_tasks(name, index)
    scores = TaskScores(plan)
    found = {}
    for task in ask(plan, data, chat=bool(chat)):
        questions = [answered(task, question) for question in task.questions]
        found[task.name] = scored(scores, task, questions)
    return found, scores.aggregate(bootstrap_iterations=ITERATIONS)


def scored(
    scores: TaskScores, task: AskedTask, questions: Sequence[StoredQuestion]
) -> Sequence[QuestionScores]:
    """Return the scores of questions of a task."""
    several = {"multiple_inputs": task.multiple_inputs, "multiple_targets": task.multiple_targets}
    return scores.score(task.name, task.kind, questions, **several)


def theirs(spec: str, index: Mapping[str, TaskEntry]) -> Mapping[str, Any]:
    """Return the results of `simple_evaluate`; `datasets.load_dataset` and DISABLE_MULTIPROC are the caller's."""
    name, _, chat = spec.partition("@")
    results: Mapping[str, Any] = lm_eval.simple_evaluate(
        model=StandIn(),
        tasks=[name],
        task_manager=task_manager(index),
        bootstrap_iters=ITERATIONS,
        torch_random_seed=None,  # which would import torch
        apply_chat_template=bool(chat),
    )
    return results


def differences(numbers: Numbers, results: Mapping[str, Any]) -> tuple[int, list[object]]:
    """Return the number of values compared, and those that differ in any bit."""
    questions, aggregates = numbers
    compared, different = 0, list[object]()
    for task, samples in results["samples"].items():
        found = {question.doc_id: question for question in questions[task]}
        assert len(found) == len({sample["doc_id"] for sample in samples})
        for sample in samples:
            for metric in sample["metrics"]:
                compared += 1
                value = found[sample["doc_id"]].metrics[f"{metric},{sample['filter']}"]
                if not same(value, sample[metric]):
                    different.append((task, sample["doc_id"], metric, value, sample[metric]))
    for name, key, value, stderr in estimates(results):
        compared += 2
        estimate = aggregates[name][key]
        if not same(estimate.value, value):
            different.append((name, key, estimate.value, value))
        if estimate.stderr != stderr:
            different.append((name, key, estimate.stderr, stderr))
    return compared, different


def estimates(results: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, float | None]]:
    """Yield each result of tasks and groups: task or group, metric with filter, value, and standard error if it is known."""
    for name, result in results["results"].items():
        for key, value in result.items():
            metric, comma, filter_name = key.rpartition(",")
            if comma and not metric.endswith("_stderr"):
                stderr = result.get(f"{metric}_stderr,{filter_name}")
                known = isinstance(stderr, int | float) and not math.isnan(stderr)
                yield name, key, value, stderr if known else None


def same(left: object, right: object) -> bool:
    """Return True if two values are equal; NaN equals NaN, and a tuple a list of the same."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if not isinstance(left, str) and hasattr(left, "__len__") and hasattr(right, "__len__"):
        return len(left) == len(right) and all(map(same, list(left), list(right)))  # type: ignore[call-overload]
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return bool(left == right)
