"""Every Eval Ever (https://github.com/evaleval/every_eval_ever), version 0.3.0: results as JSON, and answers as JSON lines.

The files have the paths of its data repository: `data/<benchmark>/<developer>/<model>/<uuid>.json` and
`<uuid>_samples.jsonl`. The uuid follows from answers and scoring, so that an export made again has the same names.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import orjson
import pyarrow.compute as pc

from regrade.answers.manifest import Session
from regrade.answers.result import Result
from regrade.answers.sets import AnswerSet
from regrade.benchmarks.questions.targets import RowError
from regrade.benchmarks.questions.tools import tools_of
from regrade.exchange.exporting.scored import (
    ShownImages,
    asked_messages,
    asked_text,
    by_labels,
    made_messages,
    results_apart,
    token_usage,
)
from regrade.judging.readings import judged_answer_set, judged_answers
from regrade.records.messages import PartedMessage
from regrade.records.rubrics.facts import JudgeRun, answering_model, answers_per_question
from regrade.records.specification import ModelIdentity, path_component
from regrade.records.tools import TOOLS
from regrade.settings.errors import RepositoryError, SettingsError
from regrade.settings.files import atomic_write, make_folder, write_atomically
from regrade.settings.turn_ids import turn_of
from regrade.stats.metrics import Metrics
from regrade.stats.scale import SHARES

_COLUMNS = (
    *("sample_id", "index", "repeat", "subset", "question", "prompt", "prompt_kind", "target"),
    *("choices", "text", "reasoning", "tool_calls", "trajectory", "images"),
    *("finish_reason", "prompt_tokens", "completion_tokens", "time_to_first_token", "latency"),
    *("error",),
)
"""Columns of answers that are read."""

# Models in Every Eval Ever: the one that answered, and the one that judged.


def model_info(model: ModelIdentity, session: Session | None) -> dict[str, Any]:
    """Return a model, with the engine of a session; None: the engine is not known."""
    details = texts(
        deployment_type="self_deployed" if model.kind in ("hub", "local") else "unknown",
        model_availability="unknown",
        kind=model.kind,
        revision=model.revision,
        quantization=model.quantization,
    )
    if model.adapter is not None:
        details["adapter"] = f"{model.adapter.name}@{model.adapter.revision}"
    found: dict[str, Any] = {"name": model.name, "id": model.name, "additional_details": details}
    if "/" in model.name:
        found["developer"] = model.name.split("/")[0]
    if session is not None:
        version = session.engine_version or "unknown"
        found["inference_engine"] = {"name": session.engine, "version": version}
    return found


def llm_scoring(scored: Result, run: JudgeRun) -> dict[str, Any]:
    """Return the judge with its rubric, and its calibration by people's labels."""
    manifest, spec = scored.answers.manifest, scored.answers.manifest.specification
    session = manifest.sessions[-1] if manifest.sessions else None
    judge: dict[str, Any] = {"model_info": model_info(spec.model, session)}
    if spec.sampling is not None:
        judge["temperature"] = spec.sampling.temperature
    return {
        "judges": [judge],
        "input_prompt": spec.prompt.template,
        "additional_details": texts(
            rubric=run.rubric.name,
            rubric_source=run.rubric.source or None,
            rubric_sha256=run.rubric.sha256,
            verdicts_per_answer=run.judge_repeats * run.parts,
            baseline=run.baseline.model if run.baseline else None,
            by_labels_of_people=by_labels(scored),
        ),
    }


def answer_rows(scored: Result) -> Iterator[dict[str, Any]]:
    """Yield the rows of a scored set; of verdicts, with what was judged in place of the judge's prompt and reply.

    None if the judged answers are not in this repository, or were changed since.
    """
    run = scored.run
    if run is None:
        yield from scored.rows(_COLUMNS)
        return
    try:
        judged = judged_answers(scored.answers)
        stored, _ = judged_answer_set(scored.answers)
    except (SettingsError, RepositoryError):
        return
    said = {
        (row["sample_id"], row["repeat"]): {name: row[name] for name in _SAID}
        for batch in stored.batches(["sample_id", "repeat", *_SAID])
        for row in batch.to_pylist()
    }
    for row in scored.rows(_COLUMNS):
        key = row["sample_id"], run.place(row["repeat"])[0]
        given = {"text": judged[key].answer, "target": judged[key].reference}
        yield row | dict.fromkeys(_OF_THE_REPLY) | said[key] | given


_SAID = ("prompt", "prompt_kind", "tool_calls", "trajectory")
"""Columns of a judged answer that are its messages."""
_OF_THE_REPLY = (
    *("reasoning", "finish_reason", "prompt_tokens", "completion_tokens", "time_to_first_token"),
    *("latency",),
)
"""Columns of a verdict that are about the judge's reply."""


def texts(**values: object) -> dict[str, str]:
    """Return the known values as texts, which the format wants for all further details."""
    return {name: str(value) for name, value in values.items() if value is not None}


SCHEMA_VERSION = "0.3.0"
Relationship = Literal["first_party", "third_party", "collaborative", "other"]
"""Relationship between who evaluated and who made the model."""


def export_every_eval_ever(
    scored: Result,
    folder: Path,
    made_at: datetime,
    *,
    organization: str,
    relationship: Relationship,
) -> list[Path]:
    """Write an answer set; return the files.

    Answers to questions that must not be published are left out: only the results are written. So are answers without a
    value, because the format has no way to say that a score is missing; their number is among the results. Images are files,
    named in `metadata` and by the marks in the texts. Answers with calls of tools are `agentic`, later turns of conversations
    `multi_turn`: all messages in place of the output. Verdicts of a judge are results of the judged model with the judge as
    `llm_scoring`, and scores of its answers.

    Args:
        scored: Answer set and scoring.
        folder: Folder in which `data/` is created.
        made_at: Time of the export.
        organization: Name of the organization that evaluated.
        relationship: Its relationship to the model.
    """
    spec = scored.answers.manifest.specification
    developer, _, short = answering_model(spec).name.rpartition("/")
    place = Path(
        "data",
        path_component(spec.benchmark.name),
        path_component(developer) if developer else "unknown",
        path_component(short),
    )
    uuid = _uuid(scored)
    make_folder(folder / place)
    result = _result(scored, made_at, organization, relationship)
    written = []
    if not scored.answers.manifest.withheld:
        samples = place / f"{uuid}_samples.jsonl"
        digest, count = hashlib.sha256(), 0
        beside = _ImagesBeside(scored, folder / place, f"{uuid}_images")
        with atomic_write(folder / samples) as file:
            for sample in _samples(scored, result["evaluation_id"], beside):
                line = orjson.dumps(sample, option=orjson.OPT_APPEND_NEWLINE)
                digest.update(line)
                file.write(line)
                count += 1
        result["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": samples.as_posix(),
            "hash_algorithm": "sha256",
            "checksum": digest.hexdigest(),
            "total_rows": count,
        }
        written += [folder / samples, *beside.written.values()]
    path = folder / place / f"{uuid}.json"
    write_atomically(
        path, orjson.dumps(result, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    )
    return [path, *written]


class _ImagesBeside:
    """Files of the images that questions show, in a folder beside the samples: the format has texts alone."""

    def __init__(self, scored: Result, place: Path, folder: str) -> None:
        self._images = ShownImages(scored.answers)
        self._place, self._folder = place, folder
        self.written: dict[str, Path] = {}
        """File of each image, by its sha256."""

    def names(self, row: Mapping[str, Any]) -> str | None:
        """Return the files of a row's images, or where they are in their dataset; None without images."""
        return ", ".join(self._name(sha256, row["index"]) for sha256 in row["images"] or ()) or None

    def _name(self, sha256: str, number: int) -> str:
        if sha256 in self.written:
            return f"{self._folder}/{self.written[sha256].name}"
        found = self._images.read(sha256, number)
        if isinstance(found, str):
            return found
        name = f"{self._folder}/{sha256}.{found.media_type.removeprefix('image/')}"
        write_atomically(self._place / name, found.content)
        self.written[sha256] = self._place / name
        return name


def _uuid(scored: Result) -> UUID:
    shards = ",".join(shard.sha256 for shard in scored.answers.manifest.shards)
    key = f"{scored.answers.manifest.answer_set_id}/{scored.file.label}/{shards}"
    return UUID(bytes=hashlib.sha256(key.encode()).digest()[:16], version=4)


def _result(
    scored: Result, made_at: datetime, organization: str, relationship: Relationship
) -> dict[str, Any]:
    manifest, spec = scored.answers.manifest, scored.answers.manifest.specification
    stamp = f"{made_at.timestamp():.0f}"
    last = manifest.sessions[-1] if manifest.sessions else None
    answering = answering_model(spec)
    results = list(_results(scored))
    if scored.run is not None:
        scoring = llm_scoring(scored, scored.run)
        for found in results:
            found["metric_config"]["llm_scoring"] = scoring
    elif not manifest.withheld and (tools := _tools(scored.answers)):
        for found in results:
            found["generation_config"]["generation_args"]["agentic_eval_config"] = tools
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{spec.benchmark.name}/{answering.name}/{stamp}",
        "evaluation_timestamp": manifest.updated_at.isoformat(),
        "retrieved_timestamp": stamp,
        "source_metadata": {
            "source_name": "regrade",
            "source_type": "evaluation_run",
            "source_organization_name": organization,
            "evaluator_relationship": relationship,
            "additional_details": texts(
                answer_set=manifest.answer_set_id,
                answers=scored.answers.repository.uri
                if "://" in scored.answers.repository.uri
                else None,
                commit=scored.answers.revision,
                page=scored.url,
                state=manifest.state,
                **scored.figures,
            ),
        },
        "eval_library": {
            "name": "regrade",
            "version": "unknown" if last is None else last.regrade_version,
        },
        "model_info": model_info(answering, last if scored.run is None else None),
        "evaluation_results": results,
    }


def _results(scored: Result) -> Iterator[dict[str, Any]]:
    summary, spec = scored.file.summary, scored.answers.manifest.specification
    name, repeats = spec.benchmark.name, answers_per_question(spec)
    if summary.overall.accuracy is not None:
        yield _metric(scored, name, repeats, summary.overall)
    for part in (*summary.categories, *summary.subsets):
        if part.metrics.accuracy is not None and part.name:
            yield _metric(scored, f"{name}/{part.name}", repeats, part.metrics)
    for k, value in summary.pass_at.items():
        if k > 1:
            error, n = summary.pass_at_stderr.get(k), summary.pass_at_samples.get(k)
            yield _value(scored, name, "pass", k, value, error, n)
    if (voted := summary.majority_accuracy) is not None:
        error, n = summary.majority_stderr, summary.majority_samples
        yield _value(scored, name, "maj", repeats, voted, error, n)


def _metric(scored: Result, name: str, repeats: int, metrics: Metrics) -> dict[str, Any]:
    spec, error = scored.answers.manifest.specification, metrics.accuracy_stderr
    found = _value(scored, name, "avg", repeats, metrics.accuracy or 0.0, error, metrics.samples)
    if metrics.accuracy_low is not None and metrics.accuracy_high is not None:
        found["score_details"]["uncertainty"]["confidence_interval"] = {
            "lower": metrics.accuracy_low,
            "upper": metrics.accuracy_high,
            "confidence_level": 0.95,
            "method": "wilson" if spec.repeats == 1 else "clustered by question",
        }
    counts = ("rows", "n", "unparsed", "unfinished", "timeouts", "truncated", "failed")
    found["score_details"]["details"] = texts(
        **{count: getattr(metrics, count) for count in counts}
    )
    return found


def _value(
    scored: Result,
    name: str,
    kind: Literal["avg", "pass", "maj"],
    k: int,
    value: float,
    error: float | None,
    samples: int | None,
) -> dict[str, Any]:
    """Return a result over `k` answers to each question; the average of one is the accuracy."""
    uncertainty: dict[str, Any] = {}
    if error is not None:
        uncertainty["standard_error"] = {"value": error, "method": "analytic"}
    if samples is not None:
        uncertainty["num_samples"] = samples
    metric = "accuracy" if (kind, k) == ("avg", 1) else f"{kind}@{k}"
    metric_id = metric.replace("@", "_at_")
    scale = SHARES if kind == "pass" else scored.file.scale
    share = "pass_rate" if kind == "pass" else "accuracy"
    in_shares = scale.unit == "%"
    found: dict[str, Any] = {
        "evaluation_result_id": f"{name}/{metric_id}",
        "evaluation_name": name,
        "source_data": _source(scored),
        "metric_config": {
            "metric_id": metric_id,
            "metric_name": metric,
            "metric_kind": share if in_shares else "mean_score",
            "metric_unit": "proportion" if in_shares else "points",
            "metric_parameters": {} if metric == "accuracy" else {"k": k},
            "lower_is_better": False,
            "score_type": "continuous",
            "min_score": scale.low,
            "max_score": scale.high,
            "additional_details": texts(
                scorer=scored.file.scorer,
                scorer_version=scored.file.version,
                scorer_source=scored.file.source_hash,
            ),
        },
        "score_details": {"score": value, "uncertainty": uncertainty},
    }
    if scored.run is None:
        found["generation_config"] = _generation(scored)
    return found


def _source(scored: Result) -> dict[str, Any]:
    manifest = scored.answers.manifest
    benchmark = manifest.specification.benchmark
    details = texts(
        revision=benchmark.source_revision,
        config=benchmark.config,
        split=benchmark.split,
        limit=benchmark.limit,
        benchmark_version=benchmark.version,
    )
    # Other sources are a file, stored answers, or unknown.
    of_hub = "/" in benchmark.source and scored.run is None
    questions = {
        "hf_repo": benchmark.source,
        "hf_split": benchmark.split,
        "samples_number": manifest.n_samples,
    }
    return {
        "dataset_name": benchmark.name,
        "source_type": "hf_dataset" if of_hub else "other",
        **(questions if of_hub else {}),
        "additional_details": details,
    }


def _generation(scored: Result) -> dict[str, Any]:
    spec = scored.answers.manifest.specification
    arguments: dict[str, Any] = {"prompt_template": spec.prompt.template}
    details = texts(
        method=spec.method,
        prompt_format=spec.prompt.format,
        n_shots=spec.prompt.n_shots,
        system=spec.prompt.system,
        repeats=spec.repeats,
        **{f"engine_{name}": value for name, value in spec.engine.items()},
    )
    if spec.sampling is not None and spec.method == "generate":
        named = ("temperature", "top_p", "top_k", "max_tokens")
        sampling = spec.sampling.model_dump(mode="json")
        arguments |= {name: sampling.pop(name) for name in named}
        details |= texts(**{name: value for name, value in sampling.items() if value != []})
    return {"generation_args": arguments, "additional_details": details}


def _tools(answers: AnswerSet) -> dict[str, Any] | None:
    """Return the functions that all questions offer, or that they differ: the format has one list; None without functions."""
    offered = set()
    for batch in answers.batches(["doc", "tool_calls"]):
        for row in batch.filter(pc.is_valid(batch["tool_calls"])).to_pylist():
            with suppress(ValueError, RecursionError):  # of strangers: no functions are known
                doc = json.loads(row["doc"] or "{}")
                offered.add(json.dumps(doc.get(TOOLS) if isinstance(doc, dict) else None))
    if len(offered) != 1:
        details = texts(available_tools="differ by question")
        return {"additional_details": details} if offered else None
    try:
        tools = tools_of(0, TOOLS, json.loads(offered.pop()))
    except (RowError, RecursionError):  # of strangers, or of an import: the functions are not known
        return None
    functions = [tool["function"] for tool in tools]
    return {
        "available_tools": [
            {
                "name": function["name"],
                "description": str(function.get("description", "")),
                "parameters": {
                    name: json.dumps(schema)
                    for name, schema in function.get("parameters", {}).get("properties", {}).items()
                },
            }
            for function in functions
        ]
    }


Interaction = Literal["single_turn", "multi_turn", "agentic"]


def _interaction(row: Mapping[str, Any], made: Sequence[PartedMessage]) -> Interaction:
    """Return how a model came to its answer: with tools, in several messages, or in one."""
    if any(part.kind in ("tool_call", "tool_result") for message in made for part in message.parts):
        return "agentic"
    turn = turn_of(row["sample_id"])
    several = len(made) > 1 or (turn is not None and turn.number > 1)
    return "multi_turn" if several else "single_turn"


def _output(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "raw": [] if row["text"] is None else [row["text"]],
        "reasoning_trace": None if row["reasoning"] is None else [row["reasoning"]],
    }


def _message(number: int, message: PartedMessage) -> dict[str, Any]:
    """Return a message, whose results of tools are apart; values of arguments are JSON."""
    shown = [part.text for part in message.parts if part.kind not in ("reasoning", "tool_call")]
    thought = [part.text for part in message.parts if part.kind == "reasoning"]
    calls = [part for part in message.parts if part.kind == "tool_call"]
    results = [part.call for part in message.parts if part.kind == "tool_result" and part.call]
    return {
        "turn_idx": number,
        "role": message.role or "user",
        "content": "".join(shown) if shown else None,
        "reasoning_trace": "\n\n".join(thought) or None,
        "tool_calls": [
            {
                "id": part.call or f"call-{number}-{place}",
                "name": part.name,
                "arguments": {name: json.dumps(value) for name, value in part.arguments.items()}
                if isinstance(part.arguments, dict)
                else {"no JSON object": str(part.arguments)},
            }
            for place, part in enumerate(calls, 1)
        ]
        or None,
        "tool_call_id": results or None,
    }


def _counts(messages: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    calls = sum(len(message["tool_calls"] or ()) for message in messages)
    return {"num_turns": len(messages), "tool_calls_count": calls}


def _place_of_answer(row: Mapping[str, Any], messages: Sequence[dict[str, Any]]) -> tuple[int, str]:
    """Return the turn of the answer, and the field that holds it."""
    for message in reversed(messages):
        if message["role"] == "assistant" and message["content"] == row["text"]:
            return message["turn_idx"], f"messages[{message['turn_idx']}].content"
    if messages:
        return len(messages) - 1, "metadata.answer"
    return 0, "output.raw" if row["text"] is not None else "log-probabilities"


def _samples(scored: Result, evaluation_id: str, images: _ImagesBeside) -> Iterator[dict[str, Any]]:
    spec, scoring = scored.answers.manifest.specification, scored.file
    repeats = answers_per_question(spec)
    average = "accuracy" if repeats == 1 else f"avg_at_{repeats}"
    for row in answer_rows(scored):
        if row["value"] is None:
            continue
        asked = asked_text(row)
        reference = [] if row["target"] is None else [row["target"]]
        made = made_messages(row)
        interaction = _interaction(row, made)
        alone = interaction == "single_turn"
        said = [] if alone else [*asked_messages(row), *made]
        apart = chain.from_iterable(map(results_apart, said))
        messages = [_message(number, message) for number, message in enumerate(apart)]
        turn, source = _place_of_answer(row, messages)
        sample: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "evaluation_id": evaluation_id,
            "model_id": answering_model(spec).name,
            "evaluation_name": spec.benchmark.name,
            "evaluation_result_id": f"{spec.benchmark.name}/{average}",
            "sample_id": row["sample_id"],
            "sample_hash": None
            if asked is None
            else hashlib.sha256("".join([asked, *reference]).encode()).hexdigest(),
            "interaction_type": interaction,
            "input": {
                "raw": asked or "",
                "formatted": row["prompt"],
                "reference": reference,
                "choices": row["choices"] or None,
            },
            **({"output": _output(row)} if alone else {"output": None, "messages": messages}),
            "answer_attribution": []
            if row["extracted"] is None
            else [
                {
                    "turn_idx": turn,
                    "source": source if scored.run is None else "verdict of the judge",
                    "extracted_value": row["extracted"],
                    "extraction_method": f"{scoring.scorer} v{scoring.version}",
                    "is_terminal": True,
                }
            ],
            "evaluation": {"score": row["value"], "is_correct": row["value"] >= scoring.scale.high}
            | ({} if alone else _counts(messages)),
            "metadata": texts(
                subset=row["subset"] or None,
                repeat=row["repeat"],
                outcome=row["outcome"],
                finish_reason=row["finish_reason"],
                images=images.names(row),
                answer=row["text"] if source == "metadata.answer" else None,
                input="not stored" if asked is None else None,
            ),
        }
        if (usage := token_usage(row)) is not None:
            sample["token_usage"] = usage
        if row["latency"] is not None:
            first = row["time_to_first_token"]
            sample["performance"] = {
                "latency_ms": 1000 * row["latency"],
                "time_to_first_token_ms": None if first is None else 1000 * first,
            }
        yield sample
