"""Reader of lighteval details (https://huggingface.co/docs/lighteval/saving-and-reading-results): `details_*.parquet`.

Since 0.10 the columns are `doc`, `model_response` and `metric` (`__doc__` and so on in the documentation); earlier
versions have `full_prompt`, `predictions`, `gold` and `metrics`. `results_*.json` has the model and the reported scores.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regrade.exchange.importing.base import (
    ImportedRow,
    ImportedSet,
    OriginalScore,
    Reported,
    RowScore,
    TableOptions,
)
from regrade.exchange.importing.files import SourceFile, finite
from regrade.exchange.importing.record import Record, as_json

_NAME = re.compile(r"details_(?P<task>.+)_(?P<time>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9.-]+)\.parquet")


def read(file: SourceFile, _: TableOptions) -> ImportedSet:
    """Read the details and the results of the same run.

    Raises:
        ImportFileError: If a row has neither a text nor log-probabilities.
    """
    match = _NAME.fullmatch(file.path.name)
    task, n_shots = _task(match["task"]) if match else (None, None)
    results = file.facts(*(_results(file.path, match["time"]) if match else ()))
    rows = [row for index, record in enumerate(file.rows) for row in _rows(index, record)]
    config = _part_of_task(results.part("config_tasks"), task)
    n_samples = config.integer("effective_num_docs")
    reported = _part_of_task(results.part("results"), task)
    names = list(dict.fromkeys(name for row in rows for name in row.scores))
    names = names or [name for name in reported.value if not name.endswith("_stderr")]
    general = results.part("config_general")
    return ImportedSet(
        rows,
        model=general.text("model_name") or _model_of(file.path),
        benchmark=task,
        n_samples=n_samples,
        repeats=max((row.repeat for row in rows), default=0) + 1,
        model_revision=general.text("model_sha") or None,
        method="rank" if any(row.label_logprobs for row in rows) else "generate",
        n_shots=n_shots,
        config=config.text("hf_subset"),
        limit=n_samples if general.get("max_samples") is not None else None,
        recorded={
            "dataset": config.text("hf_repo"),
            "sampling": general.part("generation_parameters").value or None,
            "version": general.text("lighteval_sha"),
        },
        originals=tuple(
            OriginalScore(name, _reported(name, reported, n_samples)) for name in names
        ),
    )


def _uniform(record: Record) -> tuple[Record, Record, Record]:
    """Question, answer and metrics of a row of any version."""
    if "full_prompt" not in record.names:
        marks = "__" if "__doc__" in record.names else ""
        return (
            record.part(f"{marks}doc{marks}"),
            record.part(f"{marks}model_response{marks}"),
            record.part(f"{marks}metric{marks}"),
        )
    choices = record.get("choices")
    doc = {
        "query": record.get("example"),
        "choices": choices or record.get("gold"),
        "gold_index": record.get("gold_index") if choices else 0,
    }
    response = {"input": record.get("full_prompt"), "text": record.get("predictions")}
    return Record(doc, record.error), Record(response, record.error), record.part("metrics")


def _rows(index: int, record: Record) -> list[ImportedRow]:
    doc, response, metric = _uniform(record)
    choices = doc.texts("choices") or ()
    gold = doc.get("gold_index")
    if isinstance(gold, list):  # several right choices make no single target
        gold = gold[0] if len(gold) == 1 else None
    several = len(choices) > 1
    exists = type(gold) is int and 0 <= gold < len(choices)
    prompt = response.get("input")
    is_text = isinstance(prompt, str)
    scores = {
        name: RowScore(value)
        for name, field in metric.value.items()
        if (value := finite(field)) is not None
    }
    texts = response.texts("text") or ()
    question = doc.text("query") or None
    common: dict[str, Any] = {
        "index": index,
        "content": question or (prompt if is_text else as_json(prompt)),
        "question": question,
        "target": None if not exists else gold if several else choices[gold],
        "choices": choices if several else (),
        "prompt": response.text("input")
        if is_text
        else (None if prompt is None else as_json(prompt)),
        "prompt_kind": "text" if is_text or prompt is None else "messages",
    }
    if texts:
        scores = scores if len(texts) == 1 else {}  # metrics are over all answers to a question
        return [
            ImportedRow(**common, repeat=repeat, text=text, scores=scores)
            for repeat, text in enumerate(texts)
        ]
    logprobs = response.get("logprobs")
    if not isinstance(logprobs, list) or len(logprobs) != len(choices) or not several:
        raise record.error("it has neither a text nor a log-probability for each choice.")
    ranked = tuple(finite(logprob) for logprob in logprobs if logprob is not None)
    if None in ranked:
        raise record.error(f"'logprobs' should be numbers, found {logprobs!r:.60}.")
    answered = ranked if len(ranked) == len(choices) else None
    return [ImportedRow(**common, text=None, label_logprobs=answered, scores=scores)]  # type: ignore[arg-type]


def _task(text: str) -> tuple[str, int | None]:
    """Name and number of examples of a task: `lighteval|gsm8k|5`, `mmlu:anatomy|5`, or `gsm8k`."""
    parts = text.split("|")
    shots = int(parts.pop()) if len(parts) > 1 and parts[-1].isdecimal() else None
    return parts[-1], shots


def _results(path: Path, time: str) -> Iterator[Path]:
    """Places of the results of the same run: in the folder of the details, or in `results/MODEL/` of the output folder."""
    name = f"results_{time}.json"
    yield from (path.with_name(name), path.parent.parent / name)
    if (model := _model_of(path)) is not None:
        yield path.parents[model.count("/") + 3] / "results" / model / name


def _model_of(path: Path) -> str | None:
    """Model in the path of the details: `details/ORG/NAME/TIME/details_*.parquet`."""
    parts = path.parts[:-2]
    if "details" not in parts:
        return None
    below = parts[len(parts) - parts[::-1].index("details") :]
    return "/".join(below) or None


def _part_of_task(record: Record, task: str | None) -> Record:
    """Object of a task; its key may also have suite and number of examples, separated by `|` or `:`."""
    for name in record.value:
        words = re.split(r"[|:]", name)
        if task is not None and set(re.split(r"[|:]", task)) <= set(words):
            return record.part(name)
    return Record({}, record.error)


def _reported(name: str, results: Record, n: int | None) -> Reported | None:
    value = finite(results.value.get(name))
    error = finite(results.value.get(f"{name}_stderr"))
    return None if value is None else Reported(value, error, n)
