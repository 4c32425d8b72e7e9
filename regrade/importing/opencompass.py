"""Predictions of OpenCompass (https://github.com/open-compass/opencompass): `predictions/MODEL/DATASET.json`.

An object `{"0": {"origin_prompt", "prediction", "gold"}, ...}`, as `GenInferencerOutputHandler` writes it. The results
are in `results/MODEL/DATASET.json`: metrics in percent, and with `--dump-eval-details` each answer's `correct`.
"""

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

HEADLINES = ("accuracy", "score")
_ROLES = {"HUMAN": "user", "BOT": "assistant", "SYSTEM": "system"}


def read(file: SourceFile, _: TableOptions) -> ImportedSet:
    """Return the predictions of a file.

    Raises:
        ImportFileError: If the predictions are not texts (OpenCompass also compares perplexities).
    """
    document = file.record(file.document).value
    results = _results(file)
    details = results.get("details") if results else None
    metric = next((name for name in HEADLINES if results and name in results.value), None)
    name = metric or "correct"
    rows = []
    for index in range(len(document)):
        record = file.record(document.get(str(index)), index)
        rows += _rows(index, record, _given(details, index, name))
    reported = None
    if results is not None and metric is not None:
        value = finite(results.get(metric))
        reported = None if value is None else Reported(value, n=len(document), out_of=100.0)
    parent = file.path.parent
    return ImportedSet(
        rows,
        model=parent.name if parent.parent.name == "predictions" else None,
        benchmark=file.path.stem,
        format="chat" if rows and rows[0].prompt_kind == "messages" else None,
        originals=(OriginalScore(name, reported),)
        if reported or any(row.given for row in rows)
        else (),
    )


def _results(file: SourceFile) -> Record | None:
    """Return the results that belong to predictions, if they lie where OpenCompass puts them."""
    folder = file.path.parent.parent
    path = folder.with_name("results") / file.path.parent.name / file.path.name
    if folder.name != "predictions" or not path.is_file():
        return None
    return SourceFile(path).record(SourceFile(path).document)


def _rows(index: int, record: Record, given: dict[str, Given]) -> list[ImportedRow]:
    if any(name.startswith("label: ") for name in record.value):
        raise record.error(
            "it holds perplexities of choices and no answer; that cannot be graded again."
        )
    found = record.need("prediction")
    several = isinstance(found, list)
    texts = record.texts("prediction") if several else (record.text("prediction"),)
    prompt = record.get("origin_prompt")
    messages = isinstance(prompt, list)
    shown = _messages(prompt) if messages else record.text("origin_prompt")
    gold = record.get("gold")
    return [
        ImportedRow(
            index=index,
            repeat=repeat,
            question=shown or f"row {index}",
            target=clean(str(gold)) if isinstance(gold, str | int | float) else None,
            text=text,
            prompt=shown,
            prompt_kind="messages" if messages else "text",
            given={} if several else given,
        )
        for repeat, text in enumerate(texts or ())
    ]


def _messages(prompt: list[Any]) -> str:
    """Return messages under the names that chat templates know."""
    messages = []
    for part in prompt:
        message = part if isinstance(part, dict) else {"content": part}
        role, content = message.get("role"), message.get("content", message.get("prompt"))
        messages.append({"role": _ROLES.get(str(role), role), "content": content})
    return as_json(messages)


def _given(details: Json, index: int, name: str) -> dict[str, Given]:
    detail: Any = None
    if isinstance(details, dict):
        detail = details.get(str(index))
    elif isinstance(details, list) and index < len(details):
        detail = details[index]
    if not isinstance(detail, dict):
        return {}
    correct = detail.get("correct")
    if isinstance(correct, list) and len(correct) == 1:
        correct = correct[0]
    value = finite(correct)
    read = detail.get("predictions", detail.get("pred"))
    return (
        {name: Given(value, clean(read) if isinstance(read, str) else None)}
        if value is not None
        else {}
    )
