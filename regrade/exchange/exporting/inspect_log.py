"""Inspect logs (https://inspect.aisi.org.uk/eval-logs.html): a zip with a header, a summary and a file per answer."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import orjson

from regrade.answers.result import Result
from regrade.exchange.exporting.scored import (
    ShownImages,
    asked_messages,
    asked_text,
    by_labels,
    made_messages,
    results_apart,
    token_usage,
)
from regrade.exchange.inspect_rows import COLUMNS, KEY, SHOWN, kept_columns
from regrade.records.columns import TOOL_CALLS, TRAJECTORY
from regrade.records.messages import Part, PartedMessage, answer_message, parts_of, with_short_marks
from regrade.records.specification import path_component
from regrade.settings.files import atomic_write, make_folder
from regrade.stats.scale import SHARES

LOG_VERSION = 2
_SAFE_ID = re.compile(r"[\w.:+-]{1,200}")
_STOPPED = {"stop": "stop", "length": "max_tokens"}
_GENERATE = ("temperature", "top_p", "top_k", "max_tokens", "frequency_penalty", "presence_penalty")
_ROLES = ("system", "user", "assistant", "tool")
_SUMMARY_CHARACTERS = 1_000
_ANSWER = ("text", "reasoning", "label_logprobs", TOOL_CALLS, TRAJECTORY)
"""Columns of an answer; a row with none of them has no answer."""


def export_inspect(scored: Result, folder: Path, made_at: datetime) -> list[Path]:
    """Write an answer set as a log that `inspect view` opens; return the file.

    Answers without a value have no score, and failed requests are errors, as in Inspect. Values of another scale are
    shares of it, from `I` to `C`. Questions that must not be published are left out. Images are in the log, except those that
    must not be copied. All other columns of a row are in the metadata of its sample, from which an import reads them, except
    values for each token.

    Args:
        scored: Answer set and scoring.
        folder: Folder of the log.
        made_at: Time of the export; the log's own times are those of the answers.
    """
    manifest = scored.answers.manifest
    spec = manifest.specification
    created = manifest.created_at.strftime("%Y-%m-%dT%H-%M-%S+00-00")
    name = f"{created}_{path_component(spec.benchmark.name)}_{manifest.answer_set_id}.eval"
    make_folder(folder)
    start: dict[str, Any] = {
        "version": LOG_VERSION,
        "eval": _eval(scored, made_at),
        "plan": {"name": "plan", "steps": [{"solver": spec.method, "params": {}}], "config": {}},
    }
    ids: dict[str, str] = {}
    summaries: list[dict[str, Any]] = []
    usage = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    path = folder / name
    with atomic_write(path) as file, ZipFile(file, "w", ZIP_DEFLATED) as log:
        log.writestr("_journal/start.json", orjson.dumps(start))
        images = ShownImages(scored.answers)
        for row in scored.rows((*COLUMNS, *SHOWN)):
            sample = _sample(scored, row, ids, images)
            for key, count in sample["output"].get("usage", {}).items():
                usage[key] += count
            summaries.append(_summary(sample, row))
            member = f"samples/{sample['id']}_epoch_{sample['epoch']}.json"
            log.writestr(member, orjson.dumps(sample))
        start["eval"]["dataset"]["sample_ids"] = list(ids.values())
        log.writestr("summaries.json", orjson.dumps(summaries))
        header = start | {
            "status": "success" if manifest.state == "complete" else "cancelled",
            "results": _results(scored, summaries),
            "stats": {
                "started_at": manifest.created_at.isoformat(),
                "completed_at": manifest.updated_at.isoformat(),
                "model_usage": {spec.model.name: usage},
            },
        }
        log.writestr("header.json", orjson.dumps(header))
    return [path]


def _eval(scored: Result, made_at: datetime) -> dict[str, Any]:
    manifest, spec = scored.answers.manifest, scored.answers.manifest.specification
    sampling = spec.sampling.model_dump(mode="json") if spec.sampling is not None else {}
    config = {name: sampling[name] for name in _GENERATE if name in sampling}
    if spec.method == "rank":
        config = {}
    last = manifest.sessions[-1] if manifest.sessions else None
    metadata = {
        "answer_set": manifest.answer_set_id,
        "answers": scored.answers.repository.uri if scored.url else None,
        "commit": scored.answers.revision,
        "page": scored.url,
        KEY: {
            "specification": spec.model_dump(mode="json"),
            "scorers": manifest.scorers,
            "groups": manifest.groups,
        },
        "scorer": scored.file.title,
        "scorer_source": scored.file.source_hash,
        "judged_model": scored.run.judged.model if scored.run and scored.run.judged else None,
        "by_labels_of_people": by_labels(scored),
        **scored.figures,
        "exported_at": made_at.isoformat(),
    }
    packages = {"regrade": last.regrade_version} if last is not None else {}
    if last is not None and last.engine_version is not None:
        packages[last.engine] = last.engine_version
    return {
        "eval_id": manifest.answer_set_id,
        "run_id": manifest.answer_set_id,
        "created": manifest.created_at.isoformat(),
        "task": spec.benchmark.name,
        "task_id": manifest.answer_set_id,
        "task_version": spec.benchmark.version,
        "dataset": {
            "name": spec.benchmark.name,
            "location": spec.benchmark.source,
            "samples": manifest.n_samples,
            "sample_ids": [],
            "shuffled": False,
        },
        "model": spec.model.name,
        "model_generate_config": config,
        "config": {"epochs": spec.repeats, "limit": spec.benchmark.limit},
        "packages": packages,
        "metadata": {name: value for name, value in metadata.items() if value is not None},
    }


def _results(scored: Result, summaries: list[dict[str, Any]]) -> dict[str, Any]:
    manifest, scoring = scored.answers.manifest, scored.file
    overall, scale = scoring.summary.overall, scoring.scale
    accuracy, error = overall.accuracy, overall.accuracy_stderr
    values = {
        "accuracy": None if accuracy is None else scale.shares(accuracy),
        "stderr": None if error is None else error / scale.span,
    }
    metrics = {
        name: {"name": name, "value": value, "params": {}}
        for name, value in values.items()
        if value is not None
    }
    score = {
        "name": scoring.scorer,
        "scorer": scoring.scorer,
        "scored_samples": overall.n,
        "unscored_samples": overall.rows - overall.n,
        "params": {"version": scoring.version},
        "metrics": metrics,
    }
    done = sum("error" not in summary for summary in summaries)
    return {"total_samples": manifest.expected, "completed_samples": done, "scores": [score]}


def _sample(
    scored: Result, row: dict[str, Any], ids: dict[str, str], images: ShownImages
) -> dict[str, Any]:
    """Return a sample; `ids` holds the ids given so far, because Inspect makes file names of them."""
    key = row["sample_id"]
    if key not in ids:
        ids[key] = key if _SAFE_ID.fullmatch(key) else f"question-{len(ids) + 1}"
    model, scoring = scored.answers.manifest.specification.model.name, scored.file
    writer = _MessageWriter(row, images)
    prompt = list(writer.prompt())
    sample: dict[str, Any] = {
        "id": ids[key],
        "epoch": row["repeat"] + 1,
        "input": writer.input(),
        "choices": row["choices"] or None,
        "target": [] if row["target"] is None else row["target"],
        "messages": prompt,
        "output": {"model": model, "choices": []},
        "scores": {},
        "metadata": {
            "sample_id": key,
            "number": row["index"],
            "subset": row["subset"],
            "outcome": row["outcome"],
        },
        "store": {},
        "events": [],
        "model_usage": {},
        "attachments": writer.attachments,
    }
    sample["metadata"][KEY] = kept_columns(row, sample)
    if row["error"] is not None:
        error = {"message": row["error"], "traceback": "", "traceback_ansi": ""}
        return sample | {"error": error}
    if all(row[name] is None for name in _ANSWER):
        return sample  # an import takes an empty answer for a wrong one
    generated = {"source": "generate", "model": model}
    [message] = (answer | generated for answer in writer.messages(answer_message(row)))
    made = [message]
    if row["trajectory"] is not None:
        made = [message for did in made_messages(row) for message in writer.messages(did)]
    reason = _STOPPED.get(row["finish_reason"] or "", "unknown")
    sample["messages"] = [*prompt, *made]
    sample["output"]["choices"] = [{"message": message, "stop_reason": reason}]
    if (usage := token_usage(row)) is not None:
        sample["output"]["usage"], sample["model_usage"] = usage, {model: usage}
    if row["latency"] is not None:
        sample["output"]["time"] = sample["total_time"] = row["latency"]
    if row["value"] is not None:
        share = scoring.scale.shares(row["value"])
        score = {"value": {1.0: "C", 0.0: "I"}.get(share, share), "answer": row["extracted"]}
        if scoring.scale != SHARES:
            score["metadata"] = {"value on the scorer's scale": row["value"]}
        sample["scores"] = {scoring.scorer: score}
    return sample


class _MessageWriter:
    """Writes the messages of a row as Inspect does: a result of a tool is a message, a call stands beside the content."""

    def __init__(self, row: dict[str, Any], images: ShownImages) -> None:
        self._row, self._images = row, images
        self.attachments: dict[str, str] = {}
        """Images as data URIs, by sha256."""

    def input(self) -> str | list[dict[str, Any]]:
        """Return the question; a message of the user if it shows images."""
        asked = asked_text(self._row) or ""
        parts = parts_of(asked, self._row["images"] or ())
        shown = any(part.sha256 for part in parts)
        return [*self.messages(PartedMessage("user", parts))] if shown else asked

    def prompt(self) -> Iterator[dict[str, Any]]:
        """Yield the messages that were sent; a prompt as text is one message of the user."""
        for message in asked_messages(self._row):
            yield from (written | {"source": "input"} for written in self.messages(message))

    def messages(self, message: PartedMessage) -> Iterator[dict[str, Any]]:
        """Yield a message, and one for each of its results of tools."""
        for alone in results_apart(message):
            calls = [part for part in alone.parts if part.kind == "tool_call"]
            role = alone.role if alone.role in _ROLES else "user"
            content = self._content([part for part in alone.parts if part.kind != "tool_call"])
            written: dict[str, Any] = {"role": role, "content": content}
            if calls:
                written["tool_calls"] = [
                    _call(number, part) for number, part in enumerate(calls, 1)
                ]
            for part in alone.parts:
                if part.kind == "tool_result":
                    known = {"tool_call_id": part.call, "function": part.name}
                    written |= {name: value for name, value in known.items() if value is not None}
                    if part.is_error:
                        written["error"] = {"type": "unknown", "message": part.text}
            yield written

    def _content(self, parts: Sequence[Part]) -> str | list[dict[str, Any]]:
        if all(part.kind in ("text", "tool_result") for part in parts):
            return "".join(part.text for part in parts)
        return [*map(self._part, parts)]

    def _part(self, part: Part) -> dict[str, Any]:
        if part.kind == "reasoning":
            return {"type": "reasoning", "reasoning": part.text}
        if part.sha256 is None:  # of a trajectory, whose images are not stored, or a text
            return {"type": "text", "text": part.text}
        found = self._images.read(part.sha256, self._row["index"])
        if isinstance(found, str):
            return {"type": "text", "text": found}
        self.attachments[part.sha256] = found.data_uri
        return {"type": "image", "image": f"attachment://{part.sha256}"}


def _call(number: int, part: Part) -> dict[str, Any]:
    call = {"id": part.call or f"call-{number}", "function": part.name, "type": "function"}
    if isinstance(part.arguments, dict):
        return call | {"arguments": part.arguments}
    return call | {"arguments": {}, "parse_error": f"no JSON object: {part.arguments}"}


def _summary(sample: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    summary = {
        name: sample[name]
        for name in ("id", "epoch", "choices", "scores", "metadata", "model_usage")
    }
    summary["metadata"] = {k: v for k, v in sample["metadata"].items() if k != KEY}
    asked = with_short_marks(asked_text(row) or "", row["images"] or ())
    summary["input"] = asked[:_SUMMARY_CHARACTERS]
    target = sample["target"]
    summary["target"] = target[:_SUMMARY_CHARACTERS] if isinstance(target, str) else target
    summary["completed"] = "error" not in sample
    if "error" in sample:
        summary["error"] = sample["error"]["message"]
    if "total_time" in sample:
        summary["total_time"] = sample["total_time"]
    return summary
