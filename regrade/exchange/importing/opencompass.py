"""Reader of OpenCompass predictions (https://github.com/open-compass/opencompass): `predictions/MODEL/DATASET.json`.

The file is an object `{"0": {"origin_prompt", "prediction", "gold"}, ...}`, written by `GenInferencerOutputHandler`.
`results/MODEL/DATASET.json` has metrics in percent and, with `--dump-eval-details`, `correct` and `references` of each answer, or
`is_correct` and `refr` if the dataset's own evaluator wrote them. The predictions of older versions have no `gold`.
"""

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
from regrade.exchange.importing.record import Json, Record, as_json
from regrade.records.characters import whole_characters

HEADLINES = ("accuracy", "score")
"""Names of the main metric, the preferred one first."""
_REFERENCES = ("references", "refr", "answer")
"""Names of the right answer in the results, the usual one first."""
_ROLES = {"HUMAN": "user", "BOT": "assistant", "SYSTEM": "system"}


def read(file: SourceFile, _: TableOptions) -> ImportedSet:
    """Read the predictions and the results of the same run.

    Raises:
        ImportFileError: If the predictions are perplexities instead of texts.
    """
    document = file.record(file.document).value
    results = _results(file)
    details = results.get("details")
    metric = next((name for name in HEADLINES if name in results.names), None)
    name = metric or "correct"
    rows = []
    for index in range(len(document)):
        record = file.record(document.get(str(index)), index)
        rows += _rows(index, record, _detail(details, index), name)
    value = None if metric is None else finite(results.get(metric))
    reported = None if value is None else Reported(value, n=len(document), out_of=100.0)
    parent = file.path.parent
    return ImportedSet(
        rows,
        model=parent.name if parent.parent.name == "predictions" else None,
        benchmark=file.path.stem,
        format="chat" if rows and rows[0].prompt_kind == "messages" else None,
        originals=(OriginalScore(name, reported),)
        if reported or any(row.scores for row in rows)
        else (),
    )


def _results(file: SourceFile) -> Record:
    """Results of the predictions at `results/MODEL/DATASET.json`; empty without them."""
    folder = file.path.parent.parent
    path = folder.with_name("results") / file.path.parent.name / file.path.name
    return file.facts(*([path] if folder.name == "predictions" else []))


def _rows(index: int, record: Record, detail: dict[str, Any], name: str) -> list[ImportedRow]:
    if any(name.startswith("label: ") for name in record.value):
        raise record.error("it holds perplexities of choices; only texts can be imported.")
    several = isinstance(record.need("prediction"), list)
    texts = record.texts("prediction") if several else (record.text("prediction"),)
    prompt = record.get("origin_prompt")
    messages = isinstance(prompt, list)
    prompt_text = _messages(prompt) if messages else record.text("origin_prompt")
    gold = record.get("gold")
    if gold is None:
        gold = next((detail[key] for key in _REFERENCES if key in detail), None)
    return [
        ImportedRow(
            index=index,
            repeat=repeat,
            content=prompt_text or f"row {index}",
            target=_target(gold),
            text=text,
            prompt=prompt_text,
            prompt_kind="messages" if messages else "text",
            scores={} if several else _scores(detail, name),
        )
        for repeat, text in enumerate(texts or ())
    ]


def _target(gold: Json) -> str | None:
    """Only right answer; None if there are several."""
    if isinstance(gold, list) and len(gold) == 1:
        gold = gold[0]
    return whole_characters(str(gold)) if isinstance(gold, str | int | float) else None


def _messages(prompt: list[Any]) -> str:
    """Messages as JSON, with the roles `user`, `assistant` and `system` of chat templates."""
    messages = []
    for part in prompt:
        message = part if isinstance(part, dict) else {"content": part}
        role, content = message.get("role"), message.get("content", message.get("prompt"))
        messages.append({"role": _ROLES.get(str(role), role), "content": content})
    return as_json(messages)


def _detail(details: Json, index: int) -> dict[str, Any]:
    """Return the entry of an answer in the results; {} if there is none."""
    detail: Any = None
    if isinstance(details, dict):
        detail = details.get(str(index))
    elif isinstance(details, list) and index < len(details):
        detail = details[index]
    return detail if isinstance(detail, dict) else {}


def _scores(detail: dict[str, Any], name: str) -> dict[str, RowScore]:
    correct = detail.get("correct", detail.get("is_correct"))
    if isinstance(correct, list) and len(correct) == 1:
        correct = correct[0]
    value = finite(correct)
    extracted = detail.get("predictions", detail.get("pred"))
    if value is None:
        return {}
    return {
        name: RowScore(value, whole_characters(extracted) if isinstance(extracted, str) else None)
    }
