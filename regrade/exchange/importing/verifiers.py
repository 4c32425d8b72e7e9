"""Reader of verifiers (https://github.com/PrimeIntellect-ai/verifiers): `results.jsonl` of `vf-eval`, and `traces.jsonl` of newer versions.

A rollout is an answer. `metadata.json` beside `results.jsonl` names environment and model. In `traces.jsonl` each line is an
episode, whose agents are answer sets of their own; of a message graph with several branches, the last one is imported.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any

from regrade.exchange.importing.base import ImportedRow, ImportedSet, Reported, TableOptions
from regrade.exchange.importing.files import SourceFile, finite
from regrade.exchange.importing.messages import (
    Conversation,
    conversation,
    is_trajectory,
    read_messages,
)
from regrade.exchange.importing.record import Json, Record, as_json
from regrade.exchange.importing.rewards import REWARD, numbered, reward_scores, scored
from regrade.records.characters import whole_characters
from regrade.records.messages import PartedMessage

_CUT_OFF = ("max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens")


def read(file: SourceFile, options: TableOptions) -> list[ImportedSet]:
    """Read the rollouts.

    Raises:
        ImportFileError: If a message or a reward cannot be read.
    """
    if "traces" in file.columns:
        return _episodes(file, options)
    return [_results(file, options)]


def _results(file: SourceFile, options: TableOptions) -> ImportedSet:
    about = file.facts("metadata.json")
    records = file.rows
    rows = [_rollout(*rollout) for rollout in numbered(records, _task)]
    mean = finite(about.get("avg_reward"))
    low, high = options.score_range or (0.0, 1.0)
    reported = Reported(mean) if mean is not None and (low, high) == (0.0, 1.0) else None
    rows, originals = scored(file, rows, options, reported)
    return ImportedSet(
        rows,
        model=about.text("model"),
        benchmark=about.text("env_id") or records[0].text("task"),
        n_samples=about.integer("num_examples"),
        repeats=about.integer("rollouts_per_example"),
        format="chat" if rows[0].prompt_kind == "messages" else "completion",
        recorded={
            "sampling": about.get("sampling_args"),
            "environment": about.get("env_args"),
            "version": about.get("version_info.vf_version"),
        },
        originals=originals,
    )


def _task(record: Record) -> str:
    return as_json([record.get("example_id"), record.get("task")])


def _rollout(index: int, repeat: int, record: Record) -> ImportedRow:
    prompt, completion = record.need("prompt"), record.get("completion")
    metrics = record.get("metrics")
    values = {REWARD: record.get(REWARD)} | (metrics if isinstance(metrics, dict) else {})
    for name in metrics if isinstance(metrics, dict) else ():
        record.get(name)  # older versions repeat each metric beside the others
    known: dict[str, Any] = {
        "index": index,
        "repeat": repeat,
        "content": whole_characters(prompt) if isinstance(prompt, str) else as_json(prompt),
        "target": _target(record.get("answer")),
        "scores": reward_scores(values),
        "finish_reason": "length" if record.get("is_truncated") is True else None,
        "completion_tokens": _count(record.get("token_usage.output_tokens")),
        "error": _error(record.get("error")),
    }
    if isinstance(prompt, str) and not isinstance(completion, list):
        text = record.text("completion")
        return ImportedRow(
            **known, question=whole_characters(prompt), prompt=whole_characters(prompt), text=text
        )
    given = read_messages(prompt, record)
    made = () if completion is None else read_messages(_as_answer(completion), record)
    return _row(known, conversation(given, made))


def _as_answer(completion: Json) -> Json:
    is_text = isinstance(completion, str)
    return [{"role": "assistant", "content": completion}] if is_text else completion


def _row(known: Mapping[str, Any], found: Conversation) -> ImportedRow:
    return ImportedRow(
        **known,
        question=found.question,
        prompt=found.prompt,
        prompt_kind="messages",
        text=found.text,
        reasoning=None if is_trajectory(found.trajectory) else _thought(found.trajectory),
        trajectory=found.trajectory if is_trajectory(found.trajectory) else None,
        images=found.images,
    )


def _thought(messages: tuple[PartedMessage, ...]) -> str | None:
    thoughts = [part.text for m in messages for part in m.parts if part.kind == "reasoning"]
    return "\n".join(thoughts) or None


def _target(answer: Json) -> str | None:
    if answer is None or answer == "":
        return None
    return whole_characters(answer) if isinstance(answer, str) else as_json(answer)


def _count(value: Json) -> int | None:
    number = finite(value)
    return int(number) if number is not None and 0 <= number < 2**31 else None


def _error(error: Json) -> str | None:
    if isinstance(error, dict):
        kind, message = error.get("error", error.get("type")), error.get("message")
        return whole_characters(": ".join(str(part) for part in (kind, message) if part)) or None
    return whole_characters(error) if isinstance(error, str) and error else None


def _episodes(file: SourceFile, options: TableOptions) -> list[ImportedSet]:
    groups: dict[tuple[str | None, ...], list[tuple[str, Record, Record]]] = {}
    for episode in file.rows:
        for trace in episode.parts("traces"):
            task = trace.part("task") if trace.get("task") is not None else episode.part("task")
            models = [call.text("model") for call in trace.parts("calls")]
            model = trace.text("agent.config.model") or next(filter(None, models), None)
            group = (episode.text("env.id") or None, trace.text("agent.name"), model)
            key = task.text("key") or task.text("hash") or as_json(task.get("data"))
            groups.setdefault(group, []).append((key, task, trace))
    if not groups:
        raise file.error("it has no traces.")
    return [_traces(file, options, group, traces) for group, traces in groups.items()]


def _traces(
    file: SourceFile,
    options: TableOptions,
    group: tuple[str | None, ...],
    traces: list[tuple[str, Record, Record]],
) -> ImportedSet:
    environment, agent, model = group
    rows = [
        _trace(index, repeat, *trace) for index, repeat, trace in numbered(traces, itemgetter(0))
    ]
    rows, originals = scored(file, rows, options)
    first = traces[0][2]
    return ImportedSet(
        rows,
        model=model,
        benchmark=environment or traces[0][1].text("type"),
        format="chat",
        recorded={
            "agent": agent,
            "harness": first.get("agent.config.harness.id"),
            "sampling": first.get("agent.config.sampling"),
            "version": first.text("verifiers.version"),
        },
        originals=originals,
    )


def _trace(index: int, repeat: int, key: str, task: Record, trace: Record) -> ImportedRow:
    nodes = list(_last_branch(trace))
    messages = read_messages([node.get("message") for node in nodes], trace)
    begin = next((n for n, node in enumerate(nodes) if node.get("sampled") is True), len(nodes))
    found = conversation(messages[:begin], messages[begin:])
    rewards = trace.part("rewards").objects().values()
    weighted = [(finite(r.get("score")), finite(r.get("weight"))) for r in rewards]
    known = [s * (1.0 if w is None else w) for s, w in weighted if s is not None]
    metrics = trace.get("metrics")
    values = ({REWARD: sum(known)} if known and len(known) == len(weighted) else {}) | (
        metrics if isinstance(metrics, dict) else {}
    )
    errors = trace.parts("errors")
    stopped = trace.text("stop_condition")
    reply = trace.text("root_reply")
    return _row(
        {
            "index": index,
            "repeat": repeat,
            "content": whole_characters(key),
            "target": _target(task.get("data.answer")),
            "scores": reward_scores(values),
            "finish_reason": "length" if stopped in _CUT_OFF else None,
            "completion_tokens": _count(trace.get("num_output_tokens")) or None,
            "error": _error(errors[-1].value)
            if errors and found.text is None and reply is None
            else None,
        },
        found if reply is None else replace(found, text=reply),
    )


def _last_branch(trace: Record) -> Iterator[Record]:
    """Yield the messages of the last branch, from its root on."""
    nodes = trace.parts("nodes")
    parents = [node.integer("parent") for node in nodes]
    if any(p is not None and p >= n for n, p in enumerate(parents)):
        raise trace.error("a message's parent should stand before it.")
    path: list[Record] = []
    place = len(nodes) - 1 if nodes else None
    while place is not None:
        path.append(nodes[place])
        place = parents[place]
    yield from reversed(path)
