"""Reader of Inspect logs (https://inspect.aisi.org.uk/eval-logs.html): `.eval` (a zip of JSON files) and `.json`."""

import logging
from collections.abc import Sequence
from dataclasses import replace

import orjson

from regrade.exchange.importing.base import (
    ImportedRow,
    ImportedSet,
    OriginalScore,
    Reported,
    RowScore,
    TableOptions,
)
from regrade.exchange.importing.files import SourceFile, finite
from regrade.exchange.importing.messages import (
    conversation,
    is_trajectory,
    read_messages,
    shown_images,
    split,
    stored_prompt,
)
from regrade.exchange.importing.record import Json, Record, as_json
from regrade.exchange.importing.table import known_doc
from regrade.exchange.inspect_rows import KEY, read_columns
from regrade.records.characters import whole_characters
from regrade.records.columns import TOOL_CALLS
from regrade.records.messages import PartedMessage
from regrade.records.specification import PromptIdentity
from regrade.scorers import load_scorer, scorer_names

logger = logging.getLogger("regrade")
LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Inspect's values of its grades: correct, partial, incorrect, no answer."""
_STOPPED = {"max_tokens": "length", "model_length": "length"}
_ATTACHMENT = "attachment://"


def read(file: SourceFile, _: TableOptions) -> ImportedSet:
    """Read the samples of a log; a log that holds only results gives no rows.

    Raises:
        ImportFileError: If the file is not an Inspect log.
    """
    header, samples = _zipped(file) if file.kind == "eval" else _whole(file)
    eval_ = header.part("eval")
    config = eval_.part("config")
    ids = eval_.get("dataset.sample_ids")
    places = {str(name): place for place, name in enumerate(ids)} if isinstance(ids, list) else {}
    rows = []
    for sample in samples:
        name = str(sample.need("id"))
        row = _row(places.setdefault(name, len(places)), sample)
        rows.append(_with_stored(row, sample))
    rows.sort(key=lambda row: (row.index, row.repeat))
    epochs = config.integer("epochs") or 1
    results = header.part("results")
    total = results.integer("total_samples")
    limit = config.get("limit")
    n_samples = total // epochs if total else eval_.integer("dataset.samples")
    imported = ImportedSet(
        rows,
        model=eval_.text("model"),
        benchmark=eval_.text("task"),
        n_samples=n_samples,
        repeats=epochs,
        format="chat",
        limit=limit if isinstance(limit, int) else None,
        recorded={
            "dataset": eval_.text("dataset.location"),
            "status": header.text("status"),
            "sampling": {
                **header.part("plan.config").value,
                **eval_.part("model_generate_config").value,
            }
            or None,
            "version": eval_.part("packages").text("inspect_ai"),
        },
        originals=_originals(file, results, rows),
    )
    changed = sum(bool(row.stored) and "sample_id" not in row.stored for row in rows)
    if changed:
        logger.warning(
            "%s: answers whose questions were changed after regrade exported them get new ids, and are not compared with the "
            "original ones: %d",
            file.name,
            changed,
        )
    return _with_facts(imported, eval_.part(f"metadata.{KEY}"))


def _with_facts(imported: ImportedSet, facts: Record) -> ImportedSet:
    """Return a set with the facts that regrade exported along; the set as it is without them.

    Raises:
        ImportFileError: If they cannot be read, as those of a newer version.
    """
    if not facts.names:
        return imported
    known, groups = facts.part("specification"), facts.part("groups")
    try:
        prompt = PromptIdentity.model_validate_json(as_json(known.get("prompt")))
        orjson.dumps(prompt.model_dump())  # refuses what cannot be stored, such as 10^1000
    except (ValueError, TypeError, RecursionError) as error:
        raise facts.error(f"the settings of its prompts cannot be read: {error}") from error
    # Only installed ones are loaded: other names lead to files. Those of whole subsets read more of the original than is exported.
    scorers = [name for name in facts.texts("scorers") or () if name in scorer_names()]
    fitting = (name for name in scorers if getattr(load_scorer(name), "unit", "rows") == "rows")
    return replace(
        imported,
        prompt=prompt,
        method="rank" if known.get("method") == "rank" else "generate",
        model_revision=known.text("model.revision"),
        config=known.text("benchmark.config"),
        split=known.text("benchmark.split"),
        scorer=next(fitting, None),
        groups={whole_characters(name): groups.texts(name) or () for name in groups.names},
    )


def _with_stored(row: ImportedRow, sample: Record) -> ImportedRow:
    """Return a row with the columns that regrade exported along, if it wrote the log."""
    shown = {name: sample.peek(name) for name in ("metadata", "messages", "target", "choices")}
    try:
        stored = read_columns(shown, lambda text: _resolved(text, sample))
    except (ValueError, RecursionError) as error:
        raise sample.error(f"in 'metadata.{KEY}', {error}.") from error
    if stored is None:
        return row
    sample.get("metadata")  # it counts as read
    is_ranked, has_calls = (stored[name] is not None for name in ("label_logprobs", TOOL_CALLS))
    return replace(
        row,
        stored=stored,
        text=None if is_ranked else row.text,
        trajectory=None if has_calls else row.trajectory,
    )


def _whole(file: SourceFile) -> tuple[Record, list[Record]]:
    log = file.record(file.document)
    log.need("eval")
    samples = log.get("samples") or []
    if not isinstance(samples, list):
        raise file.error("'samples' should be a list.")
    return log, [file.record(sample, row) for row, sample in enumerate(samples)]


def _zipped(file: SourceFile) -> tuple[Record, list[Record]]:
    names = file.members()
    # A killed run leaves only its start record.
    head = "header.json" if "header.json" in names else "_journal/start.json"
    if head not in names:
        raise file.error("it is not an Inspect log: it has no 'header.json'.")
    [(_, header)] = file.member_documents([head])
    chosen = [name for name in names if name.startswith("samples/") and name.endswith(".json")]
    documents = file.member_documents(chosen)
    samples = [file.record(document, row) for row, (_, document) in enumerate(documents)]
    return file.record(header), samples


def _row(index: int, sample: Record) -> ImportedRow:
    choice = sample.part("output.choices.0")
    text, reasoning = _content(choice.part("message").get("content"), sample)
    if (
        text is None and choice.names
    ):  # a thought or a call alone is an empty answer, not a missing one
        text = ""
    error = sample.part("error").text("message") if sample.get("error") else None
    target = sample.get("target")
    if isinstance(target, list):  # several right answers make no single target
        target = target[0] if len(target) == 1 else None
    stopped = choice.text("stop_reason")
    usage = sample.part("output.usage")
    asked = _asked(sample)
    question = asked if isinstance(asked, str) else conversation(asked, ()).question
    did = _trajectory(sample)
    given = _given(sample, is_agent=did is not None)
    return ImportedRow(
        index=index,
        repeat=max(0, (sample.integer("epoch") or 1) - 1),
        content=_content_of_input(sample),
        question=question,
        doc=_doc(sample, question),
        target=whole_characters(target) if isinstance(target, str) else None,
        choices=sample.texts("choices") or () if isinstance(sample.get("choices"), list) else (),
        prompt=stored_prompt(given),
        prompt_kind="messages",
        text=text,
        reasoning=reasoning,
        finish_reason=_STOPPED.get(stopped, stopped) if stopped else None,
        prompt_tokens=usage.integer("input_tokens"),
        completion_tokens=usage.integer("output_tokens"),
        latency=finite(sample.get("output.time")),
        error=sample.text("output.error") if error is None else error,
        trajectory=did,
        scores=_scores(sample),
        images=shown_images([*([] if isinstance(asked, str) else asked), *given]),
    )


def _doc(sample: Record, question: str | None) -> str | None:
    """Return what scorers read beside the target, if the sample's metadata are a row of a benchmark that they know."""
    metadata = sample.peek("metadata")
    if not isinstance(metadata, dict):
        return None
    doc = known_doc(sample, {"prompt": question or "", **metadata})
    if doc is not None:
        sample.get("metadata")  # it counts as read
    return doc


def _content_of_input(sample: Record) -> str:
    text = sample.get("input")
    return _resolved(text, sample) if isinstance(text, str) else as_json(_messages(text, sample))


def _asked(sample: Record) -> str | Sequence[PartedMessage]:
    """The input: a text, or messages."""
    given = sample.get("input")
    if isinstance(given, str):
        return _resolved(given, sample)
    return _read(given, sample) if isinstance(given, list) else ()


def _read(messages: Json, sample: Record) -> Sequence[PartedMessage]:
    return read_messages(messages, sample, lambda text: _resolved(text, sample))


def _given(sample: Record, *, is_agent: bool) -> Sequence[PartedMessage]:
    """Messages before the last answer; of an agent those before its first one; all if the model gave no answer."""
    messages = sample.get("messages")
    if not isinstance(messages, list) or not messages:
        return ()
    answers = [i for i, message in enumerate(messages) if _role(message) == "assistant"]
    if is_agent:
        answers = answers[_given_answers(sample) :][:1]
    elif not sample.get("output.choices"):
        answers = []  # all are examples: the model gave none
    last = max(answers, default=len(messages))
    known = [message for message in messages[:last] if isinstance(message, dict)]
    return _read(known, sample)


def _given_answers(sample: Record) -> int:
    """Messages of the assistant that are part of the question."""
    given = sample.get("input")
    return sum(_role(message) == "assistant" for message in given) if isinstance(given, list) else 0


def _trajectory(sample: Record) -> tuple[PartedMessage, ...] | None:
    """Messages after the prompt, if the model called tools or was answered."""
    messages = sample.get("messages")
    if not isinstance(messages, list) or not any(_calls_tools(message) for message in messages):
        return None
    _, made = split(_read(messages, sample), _given_answers(sample))
    return tuple(made) if is_trajectory(made) else None


def _calls_tools(message: Json) -> bool:
    return isinstance(message, dict) and (
        message.get("role") == "tool" or bool(message.get("tool_calls"))
    )


def _messages(messages: Json, sample: Record) -> Json:
    if not isinstance(messages, list):
        return messages
    return [
        {"role": _role(message), "content": _content(message.get("content"), sample)[0]}
        for message in messages
        if isinstance(message, dict)
    ]


def _role(message: Json) -> Json:
    return message.get("role") if isinstance(message, dict) else None


def _content(content: Json, sample: Record) -> tuple[str | None, str | None]:
    """Text and reasoning of a message, whose content is a text or a list of parts."""
    if isinstance(content, str):
        return _resolved(content, sample), None
    if not isinstance(content, list):
        return None, None
    parts = [part for part in content if isinstance(part, dict)]
    texts = [_resolved(part["text"], sample) for part in parts if isinstance(part.get("text"), str)]
    thoughts = [
        whole_characters(part["reasoning"])
        for part in parts
        if isinstance(part.get("reasoning"), str)
    ]
    return "\n".join(texts) if texts else None, "\n".join(thoughts) or None


def _resolved(text: str, sample: Record) -> str:
    """Replace a reference to an attachment with the attachment's text; Inspect stores long texts once."""
    if not text.startswith(_ATTACHMENT):
        return whole_characters(text)
    attachments = sample.get("attachments")
    key = text.removeprefix(_ATTACHMENT)
    attachment = attachments.get(key) if isinstance(attachments, dict) else None
    if not isinstance(attachment, str):
        raise sample.error(f"attachment '{text[:60]}' is not in the log.")
    return whole_characters(attachment)


def _scores(sample: Record) -> dict[str, RowScore]:
    scores: dict[str, RowScore] = {}
    for name, score in sample.part("scores").objects().items():
        value, answer = score.get("value"), score.get("answer")
        extracted = whole_characters(answer) if isinstance(answer, str) else None
        values = value if isinstance(value, dict) else {"": value}
        for key, single in values.items():
            number = LETTERS.get(single) if isinstance(single, str) else finite(single)
            label = whole_characters(f"{name}/{key}" if isinstance(value, dict) else name)
            scores[label] = RowScore(number, extracted)
    return scores


def _originals(
    file: SourceFile, results: Record, rows: list[ImportedRow]
) -> tuple[OriginalScore, ...]:
    """Return each score once: the answers have one value of it, of which Inspect may report the mean and other figures."""
    reported: dict[str, Reported | None] = {}
    for score in results.parts("scores"):
        name, reducer = score.text("name") or "score", score.get("reducer")
        found = reported.setdefault(name, None)
        if reducer not in (None, "mean"):
            file.leave_out(f"reported {name} ({reducer})")
        elif found is None:
            reported[name] = _reported(score, results)
    names = dict.fromkeys([*reported, *(name for row in rows for name in row.scores)])
    return tuple(OriginalScore(name, reported.get(name)) for name in names)


def _reported(score: Record, results: Record) -> Reported | None:
    metrics = {
        name: finite(metric.get("value"))
        for name, metric in score.part("metrics").objects().items()
    }
    value = metrics.get("accuracy", metrics.get("mean"))
    n = score.integer("scored_samples")
    n = results.integer("completed_samples") if n is None else n
    return None if value is None else Reported(value, metrics.get("stderr"), n)
