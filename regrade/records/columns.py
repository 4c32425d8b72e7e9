"""Columns of stored files: Arrow schemas, and the row of an answer.

docs/answer-format.md describes every column; a test compares that page with the schemas.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Literal

import orjson
import pyarrow as pa

from regrade.records import Completion, Sample

SCHEMA_VERSION = 3
_ADDED_IN_2 = ("question", "finished_at", "error_permanent", "start", "end")
_ADDED_IN_3 = ("doc", "continuations", "contexts", "label_is_greedy", "metrics")
TOKEN_COLUMNS = ("token_ids", "token_logprobs", "token_is_greedy")
"""Columns with a value for each token of an answer. They were added to version 3: readers without them leave them out."""
TOOL_CALLS = "tool_calls"
"""Column with the calls of tools, as JSON. It was added to version 3, too."""
TRAJECTORY = "trajectory"
"""Column with what an agent did after its prompt, as JSON (`regrade.records.trajectory`). It was added to version 3, too."""
ADDED_COLUMNS = frozenset(
    {*_ADDED_IN_2, *_ADDED_IN_3, *TOKEN_COLUMNS, TOOL_CALLS, TRAJECTORY, "images"}
)
"""Columns that were added later; they are null where an older file is read."""

KEYS = ("sample_id", "repeat")
"""Columns that identify a row."""

_GENERATION_FIELDS: "list[pa.Field[Any]]" = [
    pa.field("sample_id", pa.string(), nullable=False),
    pa.field("index", pa.int32(), nullable=False),
    pa.field("repeat", pa.int32(), nullable=False),
    pa.field("subset", pa.string(), nullable=False),
    pa.field("question", pa.string()),
    pa.field("prompt", pa.string()),
    pa.field("prompt_kind", pa.string()),
    pa.field("prompt_truncated", pa.bool_()),
    pa.field("reasoning_open", pa.bool_(), nullable=False),
    pa.field("target", pa.string()),
    pa.field("choices", pa.list_(pa.field("element", pa.string())), nullable=False),
    pa.field("doc", pa.string()),
    pa.field("continuations", pa.list_(pa.field("element", pa.string()))),
    pa.field("contexts", pa.list_(pa.field("element", pa.string()))),
    pa.field("text", pa.string()),
    pa.field("reasoning", pa.string()),
    pa.field("label_logprobs", pa.list_(pa.field("element", pa.float64()))),
    pa.field("label_method", pa.string()),
    pa.field("label_is_greedy", pa.list_(pa.field("element", pa.bool_()))),
    pa.field("finish_reason", pa.string()),
    pa.field("prompt_tokens", pa.int32()),
    pa.field("completion_tokens", pa.int32()),
    pa.field("time_to_first_token", pa.float64()),
    pa.field("latency", pa.float64()),
    pa.field("finished_at", pa.float64()),
    pa.field("error", pa.string()),
    pa.field("error_permanent", pa.bool_()),
    pa.field("token_ids", pa.list_(pa.field("element", pa.int32()))),
    pa.field("token_logprobs", pa.list_(pa.field("element", pa.float32()))),
    pa.field("token_is_greedy", pa.list_(pa.field("element", pa.bool_()))),
    pa.field("images", pa.list_(pa.field("element", pa.string()))),
    pa.field(TOOL_CALLS, pa.string()),
    pa.field(TRAJECTORY, pa.string()),
]

GENERATION_SCHEMA = pa.schema(
    _GENERATION_FIELDS, metadata={"regrade_schema_version": str(SCHEMA_VERSION)}
)
"""One row per sample and repeat."""

Outcome = Literal[
    "scored", "unparsed", "unfinished", "timeout", "measured", "refused", "truncated", "failed"
]
"""`scored`: a value was read from the answer. `unparsed`: none could be read; the answer counts as wrong.
`unfinished`: the model's reasoning never ended, so that there is nothing to read; it counts as wrong.
`timeout`: the scorer did not come to a result within its limits of time and memory; it counts as wrong.
`measured`: the answer has `metrics`, such as a perplexity, but no value from 0 to 1, which is therefore null.
In judge runs `unparsed` has no value and is not counted, and two more outcomes are told apart, without a value: `refused`, the
judge declined to answer; `truncated`, the reply was cut off before its verdict.
`failed`: there is no answer because the request failed, or no target to compare with; its value is null and it is not
counted."""

_SCORE_FIELDS: "list[pa.Field[Any]]" = [
    pa.field("sample_id", pa.string(), nullable=False),
    pa.field("repeat", pa.int32(), nullable=False),
    pa.field("subset", pa.string(), nullable=False),
    pa.field("value", pa.float64()),
    pa.field("extracted", pa.string()),
    pa.field("start", pa.int32()),
    pa.field("end", pa.int32()),
    pa.field("outcome", pa.string(), nullable=False),
    pa.field("truncated", pa.bool_(), nullable=False),
]

SCORE_SCHEMA = pa.schema(_SCORE_FIELDS, metadata={"regrade_schema_version": str(SCHEMA_VERSION)})
"""Scores as scorers return them: one row per generation, in the same order."""

SCORING_SCHEMA = SCORE_SCHEMA.append(pa.field("metrics", pa.string()))
"""Scores as they are stored: also the named values of each row, as a JSON object; null if the scorer has none."""

_IMAGE_FEATURES = {"sha256": {"dtype": "string", "_type": "Value"}, "image": {"_type": "Image"}}
IMAGE_SCHEMA = pa.schema(
    [
        pa.field("sha256", pa.string(), nullable=False),
        pa.field("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
    ],
    metadata={
        "regrade_schema_version": str(SCHEMA_VERSION),
        "huggingface": orjson.dumps({"info": {"features": _IMAGE_FEATURES}}).decode(),
    },
)
"""Images of questions: one row each. `datasets` reads its own key of the metadata, so that a file alone shows images, too."""


_OF_SAMPLE, _OF_COMPLETION = (
    [field.name for field in fields(kind) if field.name in GENERATION_SCHEMA.names]
    for kind in (Sample, Completion)
)
"""Columns that are fields of a question and of a completion."""


_NUMBERS = tuple(
    field.name
    for field in GENERATION_SCHEMA
    if isinstance(field.type, pa.ListType) and pa.types.is_floating(field.type.value_type)
)
"""Columns with lists of numbers, such as log-probabilities, of which one may be minus infinity."""
_NO_JSON = {str(number): number for number in (-math.inf, math.inf, math.nan)}
"""Numbers that JSON does not have, by the texts that stand for them there; orjson would write null."""


def to_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of `GENERATION_SCHEMA` as JSON can hold it, without a loss; `of_json` reads it."""

    def written(value: float | None) -> float | str | None:
        return value if value is None or math.isfinite(value) else str(float(value))

    return _with_numbers(row, written)


def of_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row that `to_json` wrote; what it did not write stays as it is."""
    return _with_numbers(
        row, lambda value: _NO_JSON.get(value, value) if isinstance(value, str) else value
    )


def _with_numbers(row: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    lists = {name: row.get(name) for name in _NUMBERS}
    changed = {
        name: [*map(change, values)]
        for name, values in lists.items()
        if isinstance(values, list | tuple)
    }
    return {**row, **changed}


def json_text(value: Mapping[str, Any]) -> str:
    """Return a mapping as JSON with sorted keys, as columns store it."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def doc_text(sample: Sample) -> str | None:
    """Return the value of the column `doc`."""
    return json_text(sample.doc) if isinstance(sample.doc, Mapping) else sample.doc


def generation_row(
    sample: Sample, repeat: int, completion: Completion, finished_at: float | None = None
) -> dict[str, Any]:
    """Return the row of `GENERATION_SCHEMA` for a completion.

    Args:
        sample: The question.
        repeat: Number of the answer to it.
        completion: Result of the request.
        finished_at: The answer set's seconds of the session's generation so far; None: unknown.
    """
    row = {name: getattr(sample, name) for name in _OF_SAMPLE}
    row |= {name: getattr(completion, name) for name in _OF_COMPLETION}
    row = {name: list(v) if isinstance(v, tuple) else v for name, v in row.items()}
    open_ = completion.reasoning_open
    return row | {
        "sample_id": sample.id,
        "repeat": repeat,
        "reasoning_open": completion.prompt.rstrip().endswith("<think>")
        if open_ is None
        else open_,
        "doc": doc_text(sample),
        "continuations": list(sample.continuations) or None,
        "finished_at": finished_at,
        "error_permanent": None if completion.error is None else completion.error_permanent,
        "images": [i.sha256 for i in sample.images if i.mark in completion.prompt] or None,
        TRAJECTORY: None,
    }
