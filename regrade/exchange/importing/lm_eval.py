"""Reader of samples logged by lm-evaluation-harness (https://github.com/EleutherAI/lm-evaluation-harness): `samples_*.jsonl`.

A file has a line for each question and filter (a way to extract the answer), so an answer may have several scores.
`results_*.json` of the same time in the same folder has the model, the size of the run and the reported scores.
"""

import json
import re
from ast import literal_eval
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from regrade.exchange.importing.base import (
    ImportedRow,
    ImportedSet,
    OriginalScore,
    Reported,
    RowScore,
    TableOptions,
)
from regrade.exchange.importing.files import SourceFile, finite
from regrade.exchange.importing.record import Json, Record, as_json
from regrade.exchange.importing.table import known_doc
from regrade.records.characters import whole_characters
from regrade.settings import PromptFormat

# Choices that lm-evaluation-harness ranked by log-probability, and the right one.

_MAX_LIST = 10_000
"""Longest text that is read as a list, in characters."""


_FLAGS = {"True": True, "False": False}
"""Forms in which the harness tells whether a continuation is what greedy decoding gives: a truth value or a text."""


_NULLS = (None, "None")
"""Forms of a log-probability that is missing."""


class _Request(NamedTuple):
    """Log-probability of a continuation after a context."""

    context: str
    continuation: str
    logprob: float | None
    is_greedy: bool | None


def _ranked(record: Record, responses: Sequence[Any], known: Mapping[str, Any]) -> ImportedRow:
    """Return the choices of a row, whose `resps` is `[[[logprob, greedy]], ...]`.

    If they have different contexts, the common beginning of these up to a white space is the prompt, and the rest of each context
    is part of its choice. A row that lacks a log-probability has none: its answer is missing.

    Raises:
        ImportFileError: If a log-probability is neither a number nor null.
    """
    requests = _conditional(
        [_request(record, number, response) for number, response in enumerate(responses)]
    )
    contexts = [request.context for request in requests]
    same = len(set(contexts)) == 1
    context = contexts[0] if same else _common_beginning(contexts)
    choices = tuple(
        (request.context[len(context) :] + request.continuation).strip() for request in requests
    )
    # With different contexts `target` is the continuation. A single continuation, as of lambada, is no choice.
    has_target = same and len(requests) > 1
    target = _position(record.get("target"), len(requests)) if has_target else None
    return ImportedRow(
        **{**known, "prompt": known["prompt"] if same else context or None},
        text=None,
        target=target,
        choices=choices,
        label_logprobs=_known([request.logprob for request in requests]),
        label_is_greedy=_known([request.is_greedy for request in requests]),
    )


_Known = TypeVar("_Known")


def _known(values: Sequence[_Known | None]) -> tuple[_Known, ...] | None:
    known = tuple(value for value in values if value is not None)
    return known if len(known) == len(values) else None


def _only_target(target: Json) -> str | int | None:
    """Return the only right answer; None if there are several. The harness writes lists as Python text."""
    if isinstance(target, str) and target.startswith("[") and len(target) <= _MAX_LIST:
        try:
            return _element(literal_eval(target))
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            return whole_characters(target)
    return _element(target)


def _element(target: Json) -> str | int | None:
    """Return the element of a list, None if it has several; of what is neither text nor number the JSON.

    Raises:
        ValueError: If it is a number of thousands of digits, which Python does not write.
        TypeError: If it has keys that JSON has not.
    """
    if isinstance(target, list):
        target = target[0] if len(target) == 1 else None
    if isinstance(target, int) and not isinstance(target, bool):
        return target if str(target) else None
    if target is None or isinstance(target, str):
        return target and whole_characters(target)
    return as_json(target)


def _position(target: Json, n_choices: int) -> str | int | None:
    """Return the index of the right choice, or its text if the harness recorded a text."""
    found = _only_target(target)
    if isinstance(found, str) and not found.isdecimal():
        return found
    places = {str(place): place for place in range(n_choices)}
    return None if found is None else places.get(str(found))


def _request(record: Record, number: int, response: Json) -> _Request:
    try:
        logprob, *more = (None,) if response[0] is None else response[0]
        logprob = None if logprob in _NULLS else float(logprob)
    except (TypeError, ValueError, IndexError, KeyError):
        raise record.error(
            f"'resps' should hold log-probabilities, found {response!r:.60}."
        ) from None
    context = record.get(f"arguments.gen_args_{number}.arg_0")
    continuation = record.text(f"arguments.gen_args_{number}.arg_1") or ""
    if not isinstance(context, str):
        context = "" if context is None else as_json(context)
    is_greedy = _FLAGS.get(str(more[0])) if more else None
    return _Request(whole_characters(context), continuation, logprob, is_greedy)


def _conditional(requests: Sequence[_Request]) -> Sequence[_Request]:
    """Return the requests without those for mutual information: the same continuations after an empty context."""
    after = [request for request in requests if request.context]
    alone = [request for request in requests if not request.context]
    texts, again = ([request.continuation.strip() for request in part] for part in (after, alone))
    return after if texts == again else requests


def _common_beginning(contexts: Sequence[str]) -> str:
    together = zip(*contexts, strict=False)
    differing = (place for place, characters in enumerate(together) if len(set(characters)) > 1)
    shared = contexts[0][: next(differing, min(map(len, contexts)))]
    return shared[: max(shared.rfind(space) for space in (" ", "\n", "\t")) + 1]


_NOTHING_READ = "[invalid]"
"""The harness's value for an answer from which a filter extracted nothing."""
_QUESTIONS = ("question", "query", "problem", "prompt", "input", "goal", "sentence")
"""Fields of `doc` that hold the text of a question, the preferred one first."""
_NAME = re.compile(
    r"samples_(?P<task>.+)_(?P<time>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9.-]+)\.jsonl(?:\.gz)?"
)


def read(file: SourceFile, _: TableOptions) -> ImportedSet:
    """Read the samples and the results in the same folder.

    Raises:
        ImportFileError: If a row lacks a field that the harness always writes.
    """
    match = _NAME.fullmatch(file.path.name)
    task = match["task"] if match else None
    results = file.facts(*([f"results_{match['time']}.json"] if match else []))
    config = results.part("configs").part(task) if task else Record({}, file.error)
    answers: dict[int, list[ImportedRow]] = {}
    scores: dict[int, dict[str, RowScore]] = {}
    for record in file.rows:
        index = record.integer("doc_id")
        if index is None:
            raise record.error("it has no 'doc_id'.")
        scores.setdefault(index, {}).update(_scores(record))
        if index not in answers:
            answers[index] = _rows(index, record, scores[index])
    rows = [row for index in sorted(answers) for row in answers[index]]
    names = list(dict.fromkeys(name for by_name in scores.values() for name in by_name))
    effective = results.part("n-samples").part(task).integer("effective") if task else None
    return ImportedSet(
        rows,
        model=_model(results.text("model_name")),
        benchmark=task,
        n_samples=effective or max(answers) + 1,
        repeats=config.integer("repeats"),
        model_revision=results.part("config").text("model_sha"),
        method="rank" if any(row.label_logprobs for row in rows) else "generate",
        format=_format(results, rows[0]),
        n_shots=results.part("n-shot").integer(task) if task else None,
        system=results.text("system_instruction"),
        split=config.text("test_split"),
        config=config.text("dataset_name"),
        limit=effective if results.part("config").get("limit") is not None else None,
        recorded={
            "dataset": config.text("dataset_path"),
            "sampling": config.part("generation_kwargs").value or None,
            "version": results.text("lm_eval_version"),
        },
        originals=tuple(
            OriginalScore(name, _reported(name, results.part("results"), task, effective))
            for name in names
        ),
    )


def _rows(index: int, record: Record, scores: Mapping[str, RowScore]) -> list[ImportedRow]:
    responses = record.get("resps")
    if not isinstance(responses, list) or not responses or not isinstance(responses[0], list):
        raise record.error(f"'resps' should be a list of lists, found {responses!r:.60}.")
    prompt, kind = _prompt(record)
    doc = record.objects().get("doc") or Record({}, record.error)
    question = _question(doc)
    # The text under the usual name, else the whole `doc`: ids depend on it.
    content = doc.peek("question")
    known = known_doc(record, record.peek("doc"))
    if known is not None:
        record.get("doc")  # it counts as read
    common: dict[str, Any] = {
        "index": index,
        "content": whole_characters(content)
        if isinstance(content, str)
        else as_json(record.peek("doc")),
        "question": question or None,
        "prompt": prompt,
        "prompt_kind": kind,
        "doc": known,
    }
    if any(
        isinstance(response, list) and response and isinstance(response[0], list)
        for response in responses
    ):
        return [_ranked(record, responses, common | {"scores": scores})]
    target = _only_target(record.get("target"))
    texts = record.answers("resps.0")
    if not texts:
        raise record.error("'resps' holds no answer.")
    return [
        ImportedRow(
            **common,
            repeat=repeat,
            text=text,
            target=target,
            choices=_choices(doc),
            # The harness scores all answers to a question together.
            scores=scores if len(texts) == 1 else {},
        )
        for repeat, text in enumerate(texts)
    ]


def _question(doc: Record) -> str | None:
    """Text of the question, under the first of the names that datasets use for it."""
    names = (name for name in _QUESTIONS if isinstance(doc.peek(name), str))
    return doc.text(next(names, ""))


def _prompt(record: Record) -> tuple[str | None, Any]:
    """Prompt and its kind; prompts for chat servers are a list with one JSON text, the messages."""
    prompt = record.get("arguments.gen_args_0.arg_0")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
        return whole_characters(prompt[0]), "messages" if _is_messages(prompt[0]) else "text"
    return (whole_characters(prompt), "text") if isinstance(prompt, str) else (None, "text")


def _is_messages(text: str) -> bool:
    try:
        return isinstance(json.loads(text), list)
    except (ValueError, RecursionError):
        return False


def _choices(doc: Record) -> tuple[str, ...]:
    """Choices of a question, if the dataset has them under `options`, `choices` or `choices.text`."""
    choices = doc.get("options") or doc.get("choices.text")
    if choices is None and isinstance(doc.peek("choices"), list):
        choices = doc.get("choices")
    if isinstance(choices, list) and all(isinstance(choice, str) for choice in choices):
        return tuple(whole_characters(choice) for choice in choices)
    return ()


def _scores(record: Record) -> dict[str, RowScore]:
    filtered = record.get("filtered_resps.0")
    unread = filtered == _NOTHING_READ
    extracted = whole_characters(filtered) if isinstance(filtered, str) and not unread else None
    suffix = record.text("filter") or "none"
    return {
        f"{name},{suffix}": RowScore(value, extracted, unread)
        for name in record.texts("metrics") or ()
        if (value := finite(record.get(name))) is not None
    }


def _reported(name: str, results: Record, task: str | None, n: int | None) -> Reported | None:
    reported = results.part(task).value if task else {}
    value = finite(reported.get(name))
    metric, _, suffix = name.partition(",")
    error = finite(reported.get(f"{metric}_stderr,{suffix}"))
    return None if value is None else Reported(value, error, n)


def _format(results: Record, row: ImportedRow) -> PromptFormat | None:
    if not results.value:
        return "chat" if row.prompt_kind == "messages" else None
    return "chat" if row.prompt_kind == "messages" or results.get("chat_template") else "completion"


def _model(name: str | None) -> str | None:
    """Name of the model; of a path, its last part."""
    if name is None or not name.startswith(("/", ".", "~")):
        return name
    return name.rstrip("/").rpartition("/")[2] or None
