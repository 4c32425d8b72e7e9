"""Inspect logs (https://inspect.aisi.org.uk/eval-logs.html): a zip with a header, a summary and a file per answer."""

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import orjson

from regrade.answers.figures import figures_of
from regrade.answers.result import Result
from regrade.exchange.exporting.scored import COLUMNS, by_labels
from regrade.records.specification import path_component
from regrade.settings.files import atomic_write
from regrade.stats.scale import SHARES

LOG_VERSION = 2
_SAFE_ID = re.compile(r"[\w.:+-]{1,200}")
_STOPPED = {"stop": "stop", "length": "max_tokens"}
_GENERATE = ("temperature", "top_p", "top_k", "max_tokens", "frequency_penalty", "presence_penalty")
_ROLES = ("system", "user", "assistant")
_SUMMARY_CHARACTERS = 1_000


def export_inspect(scored: Result, folder: Path, made_at: datetime) -> list[Path]:
    """Write an answer set as a log that `inspect view` opens; return the file.

    Answers without a value have no score, and failed requests are errors, as in Inspect. Values of another scale are
    shares of it, from `I` to `C`. Questions that must not be published are left out.

    Args:
        scored: Answer set and scoring.
        folder: Folder of the log.
        made_at: Time of the export; the log's own times are those of the answers.
    """
    manifest = scored.answers.manifest
    spec = manifest.specification
    created = manifest.created_at.strftime("%Y-%m-%dT%H-%M-%S+00-00")
    name = f"{created}_{path_component(spec.benchmark.name)}_{manifest.answer_set_id}.eval"
    folder.mkdir(parents=True, exist_ok=True)
    start: dict[str, Any] = {
        "version": LOG_VERSION,
        "eval": _eval(scored, made_at),
        "plan": _plan(scored),
    }
    ids: dict[str, str] = {}
    summaries: list[dict[str, Any]] = []
    usage = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    path = folder / name
    with atomic_write(path) as file, ZipFile(file, "w", ZIP_DEFLATED) as log:
        log.writestr("_journal/start.json", orjson.dumps(start))
        for row in scored.rows(COLUMNS):
            sample = _sample(scored, row, ids)
            for key, count in sample["output"].get("usage", {}).items():
                usage[key] += count
            summaries.append(_summary(sample))
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
        "model": spec.model.model_dump(mode="json"),
        "dataset_revision": spec.benchmark.source_revision,
        "prompt_format": spec.prompt.format,
        "n_shots": spec.prompt.n_shots,
        "scorer": scored.file.title,
        "scorer_source": scored.file.source_hash,
        "judged_model": scored.run.judged.model if scored.run and scored.run.judged else None,
        "by_labels_of_people": by_labels(scored),
        **figures_of(manifest, scored.file),
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


def _plan(scored: Result) -> dict[str, Any]:
    solver = scored.answers.manifest.specification.method
    return {"name": "plan", "steps": [{"solver": solver, "params": {}}], "config": {}}


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


def _sample(scored: Result, row: dict[str, Any], ids: dict[str, str]) -> dict[str, Any]:
    """Return a sample; `ids` holds the ids given so far, because Inspect makes file names of them."""
    key = row["sample_id"]
    if key not in ids:
        ids[key] = key if _SAFE_ID.fullmatch(key) else f"question-{len(ids) + 1}"
    model, scoring = scored.answers.manifest.specification.model.name, scored.file
    prompt = list(_prompt(row))
    asked = row["question"] if row["question"] is not None else row["prompt"]
    sample: dict[str, Any] = {
        "id": ids[key],
        "epoch": row["repeat"] + 1,
        "input": asked or "",
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
        "attachments": {},
    }
    if row["error"] is not None:
        error = {"message": row["error"], "traceback": "", "traceback_ansi": ""}
        return sample | {"error": error}
    message = {"role": "assistant", "content": _content(row), "source": "generate", "model": model}
    reason = _STOPPED.get(row["finish_reason"] or "", "unknown")
    sample["messages"] = [*prompt, message]
    sample["output"]["choices"] = [{"message": message, "stop_reason": reason}]
    if row["prompt_tokens"] is not None and row["completion_tokens"] is not None:
        counts = row["prompt_tokens"], row["completion_tokens"]
        usage = dict(zip(("input_tokens", "output_tokens"), counts, strict=True))
        sample["output"]["usage"] = usage | {"total_tokens": sum(counts)}
        sample["model_usage"] = {model: sample["output"]["usage"]}
    if row["latency"] is not None:
        sample["output"]["time"] = sample["total_time"] = row["latency"]
    if row["label_logprobs"] is not None:
        sample["metadata"]["label_logprobs"] = row["label_logprobs"]
    if row["value"] is not None:
        share = scoring.scale.shares(row["value"])
        score = {"value": {1.0: "C", 0.0: "I"}.get(share, share), "answer": row["extracted"]}
        if scoring.scale != SHARES:
            score["metadata"] = {"value on the scorer's scale": row["value"]}
        sample["scores"] = {scoring.scorer: score}
    return sample


def _prompt(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the messages that were sent; a prompt as text is one message of the user."""
    if row["prompt"] is None:
        return
    messages = _stored_messages(row["prompt"]) if row["prompt_kind"] == "messages" else None
    yield from messages or [{"role": "user", "content": row["prompt"], "source": "input"}]


def _stored_messages(prompt: str) -> list[dict[str, Any]] | None:
    """Return the messages in JSON; None if it is something else, which is then one message."""
    try:
        messages = orjson.loads(prompt)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(messages, list) or not all(
        isinstance(message, dict)
        and message.get("role") in _ROLES
        and isinstance(message.get("content"), str)
        for message in messages
    ):
        return None
    return [{"role": message["role"], "content": message["content"]} for message in messages]


def _content(row: dict[str, Any]) -> str | list[dict[str, Any]]:
    text = row["text"] or ""
    if row["reasoning"] is None:
        return text
    return [{"type": "reasoning", "reasoning": row["reasoning"]}, {"type": "text", "text": text}]


def _summary(sample: dict[str, Any]) -> dict[str, Any]:
    summary = {
        name: sample[name]
        for name in ("id", "epoch", "choices", "scores", "metadata", "model_usage")
    }
    summary["metadata"] = {k: v for k, v in sample["metadata"].items() if k != "label_logprobs"}
    summary["input"] = sample["input"][:_SUMMARY_CHARACTERS]
    target = sample["target"]
    summary["target"] = target[:_SUMMARY_CHARACTERS] if isinstance(target, str) else target
    summary["completed"] = "error" not in sample
    if "error" in sample:
        summary["error"] = sample["error"]["message"]
    if "total_time" in sample:
        summary["total_time"] = sample["total_time"]
    return summary
