"""Logged samples of lm-evaluation-harness (https://github.com/EleutherAI/lm-evaluation-harness): `samples_*.jsonl`.

One line for each question and filter (a way of reading the answer), so one answer may have several scores.
`results_*.json` of the same time beside it tells the model, the size of the whole run and the reported scores.
"""

import json
import re
from collections.abc import Mapping
from string import ascii_uppercase
from typing import Any

from regrade.importing.base import (
    Given,
    ImportedRow,
    ImportedSet,
    OriginalScore,
    Reported,
    TableOptions,
)
from regrade.importing.files import SourceFile, finite
from regrade.importing.record import Json, Record, as_json, clean
from regrade.settings import PromptFormat

NOTHING_READ = "[invalid]"
"""What the harness calls an answer in which its filter found nothing."""
_NAME = re.compile(
    r"samples_(?P<task>.+)_(?P<time>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9.-]+)\.jsonl(?:\.gz)?"
)


def read(file: SourceFile, _: TableOptions) -> ImportedSet:
    """Return the samples of a file, with what the results beside it say.

    Raises:
        ImportFileError: If a row lacks what the harness always writes.
    """
    match = _NAME.fullmatch(file.path.name)
    task = match["task"] if match else None
    results_file = file.beside(f"results_{match['time']}.json") if match else None
    results = (results_file or file).record(results_file.document if results_file else {})
    config = results.part("configs").part(task) if task else Record({}, file.error)
    answers: dict[int, list[ImportedRow]] = {}
    given: dict[int, dict[str, Given]] = {}
    for record in file.rows:
        index = record.integer("doc_id")
        if index is None:
            raise record.error("there is no 'doc_id'.")
        scores = given.setdefault(index, {})
        scores.update(_given(record))
        if index not in answers:
            answers[index] = _rows(index, record, scores)
    rows = [row for index in sorted(answers) for row in answers[index]]
    names = list(dict.fromkeys(name for scores in given.values() for name in scores))
    effective = results.part("n-samples").part(task).integer("effective") if task else None
    return ImportedSet(
        rows,
        model=_model(results.text("model_name")),
        benchmark=task,
        n_samples=effective or max(answers) + 1,
        repeats=config.integer("repeats"),
        model_revision=results.part("config").text("model_sha"),
        method="rank" if rows[0].label_logprobs else "generate",
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


def _rows(index: int, record: Record, given: Mapping[str, Given]) -> list[ImportedRow]:
    responses = record.get("resps")
    if not isinstance(responses, list) or not responses or not isinstance(responses[0], list):
        raise record.error(f"'resps' should be a list of lists, found {responses!r:.60}.")
    prompt, kind = _prompt(record)
    doc = record.get("doc")
    question = doc.get("question") if isinstance(doc, dict) else None
    common: dict[str, Any] = {
        "index": index,
        "question": clean(question) if isinstance(question, str) else as_json(doc),
        "prompt": prompt,
        "prompt_kind": kind,
    }
    if isinstance(responses[0][0] if responses[0] else None, list):
        return [_ranked(record, responses, {**common, "given": given})]
    target = record.get("target")
    texts = record.texts("resps.0")
    if not texts:
        raise record.error("'resps' holds no answer.")
    return [
        ImportedRow(
            **common,
            repeat=repeat,
            text=text,
            target=clean(target) if isinstance(target, str) else as_json(target),
            choices=_choices(doc),
            # The harness scores all answers to a question together.
            given=given if len(texts) == 1 else {},
        )
        for repeat, text in enumerate(texts)
    ]


def _ranked(record: Record, responses: list[Any], common: dict[str, Any]) -> ImportedRow:
    """Return the row of a question whose choices were ranked: `resps` is `[[[logprob, greedy]], ...]`."""
    logprobs = []
    for response in responses:
        try:
            logprobs.append(float(response[0][0]))
        except (TypeError, ValueError, IndexError, KeyError):
            raise record.error(
                f"'resps' should hold log-probabilities, found {response!r:.60}."
            ) from None
    target = record.get("target")
    position = int(target) if str(target).isdecimal() else -1
    if not 0 <= position < min(len(logprobs), len(ascii_uppercase)):
        raise record.error(f"'target' should be an index of the choices, found {target!r:.60}.")
    shown = [record.text(f"arguments.gen_args_{i}.arg_1") or "" for i in range(len(logprobs))]
    return ImportedRow(
        **common,
        text=None,
        target=ascii_uppercase[position],
        choices=tuple(text.strip() for text in shown),
        label_logprobs=tuple(logprobs),
    )


def _prompt(record: Record) -> tuple[str | None, Any]:
    """Return the prompt, and whether it is messages: chat servers are sent them as JSON in a list."""
    found = record.get("arguments.gen_args_0.arg_0")
    if isinstance(found, list) and len(found) == 1 and isinstance(found[0], str):
        return clean(found[0]), "messages" if _is_messages(found[0]) else "text"
    return (clean(found), "text") if isinstance(found, str) else (None, "text")


def _is_messages(text: str) -> bool:
    try:
        return isinstance(json.loads(text), list)
    except (ValueError, RecursionError):
        return False


def _choices(doc: Json) -> tuple[str, ...]:
    """Return the choices of a question, where the data set has them under one of the usual names."""
    found = (doc.get("options") or doc.get("choices")) if isinstance(doc, dict) else None
    if isinstance(found, dict):
        found = found.get("text")
    if isinstance(found, list) and all(isinstance(choice, str) for choice in found):
        return tuple(clean(choice) for choice in found)
    return ()


def _given(record: Record) -> dict[str, Given]:
    filtered = record.get("filtered_resps.0")
    unread = filtered == NOTHING_READ
    read = clean(filtered) if isinstance(filtered, str) and not unread else None
    names = record.texts("metrics") or ()
    suffix = record.text("filter") or "none"
    values = {name: finite(record.get(name)) for name in names}
    return {
        f"{name},{suffix}": Given(v, read, unread) for name, v in values.items() if v is not None
    }


def _reported(name: str, results: Record, task: str | None, n: int | None) -> Reported | None:
    found = results.part(task).value if task else {}
    value = finite(found.get(name))
    metric, _, suffix = name.partition(",")
    error = finite(found.get(f"{metric}_stderr,{suffix}"))
    return None if value is None else Reported(value, error, n)


def _format(results: Record, row: ImportedRow) -> PromptFormat | None:
    if not results.value:
        return "chat" if row.prompt_kind == "messages" else None
    return "chat" if row.prompt_kind == "messages" or results.get("chat_template") else "completion"


def _model(name: str | None) -> str | None:
    """Return a model's name; of a folder's path the last part."""
    if name is None or not name.startswith(("/", ".", "~")):
        return name
    return name.rstrip("/").rpartition("/")[2] or None
