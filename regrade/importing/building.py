"""From what a reader gave to what is kept: an answer set's description, its rows, and the original's scores."""

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

import pyarrow as pa

from regrade.answers.publishing import SetDescription
from regrade.benchmarks.questions.samples import Question, number_samples
from regrade.benchmarks.questions.targets import RowError, choice_letters, number_target
from regrade.errors import SettingsError
from regrade.importing.base import FormatName, ImportedRow, ImportedSet, OriginalScore
from regrade.importing.files import SourceFile
from regrade.importing.record import Json, as_json, clean
from regrade.records import GENERATION_SCHEMA, SCORE_SCHEMA
from regrade.settings import ScorerName
from regrade.specification import BenchmarkIdentity, ModelIdentity, PromptIdentity, Specification

UNKNOWN = "unknown"
"""Stands for a revision or split that the file does not tell."""
_MAX_NAME = 63
_MAX_TEXT = 1000


@dataclass(frozen=True, slots=True)
class Names:
    """What a person says of a file, over what it says itself."""

    model: str | None = None
    benchmark: str | None = None
    scorer: ScorerName | None = None


@dataclass(frozen=True, slots=True)
class Built:
    """One answer set, ready to be published."""

    file: SourceFile
    format: FormatName
    description: SetDescription
    table: pa.Table
    """`GENERATION_SCHEMA`."""
    originals: tuple[tuple[OriginalScore, pa.Table], ...]
    """The original's scorings, each as `SCORE_SCHEMA` with a row per generation."""


def build(file: SourceFile, format_name: FormatName, found: ImportedSet, names: Names) -> Built:
    """Return what is kept of the answers in a file.

    Raises:
        SettingsError: If neither the file nor a person says which model or benchmark it is.
        ImportFileError: If the targets do not fit together, or an answer is there twice.
    """
    targets, scorer = _targets(file, found, names.scorer)
    first = {row.index: number for number, row in reversed(list(enumerate(found.rows)))}
    order = sorted(first)
    questions = [_question(found.rows[first[index]], targets[first[index]]) for index in order]
    ids = {index: sample.id for index, sample in zip(order, number_samples(questions), strict=True)}
    if len({(row.index, row.repeat) for row in found.rows}) != len(found.rows):
        raise file.error("an answer to the same question is there twice under the same number.")
    rows = [
        _generation(row, ids[row.index], target)
        for row, target in zip(found.rows, targets, strict=True)
    ]
    repeats = max([found.repeats or 1, *(row.repeat + 1 for row in found.rows)])
    description = SetDescription(
        specification=_specification(file, format_name, found, names, repeats),
        n_samples=max(found.n_samples or 1, len(order)),
        scorers=(scorer,),
    )
    return Built(
        file,
        format_name,
        description,
        pa.Table.from_pylist(rows, schema=GENERATION_SCHEMA),
        tuple((original, _scores(original, found.rows, rows)) for original in found.originals),
    )


def source_hash(file: SourceFile, number: int, name: str) -> str:
    """Return what tells the scorings that came with a file apart: its sha256, further ones with their names."""
    if number == 0:
        return file.sha256[:8]
    return hashlib.sha256(f"{file.sha256}\0{name}".encode()).hexdigest()[:8]


def _specification(
    file: SourceFile, format_name: FormatName, found: ImportedSet, names: Names, repeats: int
) -> Specification:
    model, benchmark = names.model or found.model, names.benchmark or found.benchmark
    for what, value in (("model", model), ("benchmark", benchmark)):
        if not value:
            raise SettingsError(
                f"'{file.path}' ({format_name}) does not say of which {what} it is. Name it with `--{what} NAME`."
            )
    recorded = {name: _plain(value) for name, value in found.recorded.items() if value is not None}
    return Specification(
        model=ModelIdentity(
            name=_short(str(model)),
            kind="imported",
            revision=_short(found.model_revision or UNKNOWN),
        ),
        benchmark=BenchmarkIdentity(
            name=benchmark_name(str(benchmark)),
            version=0,
            source="local",
            source_revision=file.sha256,
            config=None if found.config is None else _short(found.config),
            split=_short(found.split or UNKNOWN),
            limit=found.limit,
            parameters={"format": format_name, **recorded},
        ),
        prompt=PromptIdentity(
            format=found.format,
            template="as imported",
            n_shots=found.n_shots,
            system=None if found.system is None else clean(found.system),
        ),
        method=found.method,
        sampling=None,
        repeats=repeats,
    )


def benchmark_name(text: str) -> str:
    """Return a name as benchmarks may have it: lower case, digits, `-` and `_`."""
    name = re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-_")[:_MAX_NAME]
    if not name:
        raise SettingsError(
            f"'{text}' is no name for a benchmark: it has neither a letter from a to z nor a digit."
        )
    return name


def _targets(
    file: SourceFile, found: ImportedSet, wanted: ScorerName | None
) -> tuple[list[str | None], ScorerName]:
    """Return the targets in the form that a scorer compares with, and the scorer that fits them."""
    raw = [row.target for row in found.rows]
    known = [target for target in raw if target is not None]
    if len(known) < len(raw) or not raw:
        return list(raw), wanted or "exact"  # which says that there is nothing to compare with
    if found.method == "rank":
        return list(raw), wanted or "choice_logprob"
    if all(2 <= len(row.choices) <= len(ascii_uppercase) for row in found.rows) and wanted in (
        None,
        "choice_letter",
    ):
        try:
            return [*choice_letters(known, [row.choices for row in found.rows])], "choice_letter"
        except RowError as error:
            raise file.error(
                f"{error.problem}. Name a scorer that does not choose, such as `--scorer exact`.",
                error.row,
            ) from error
    if wanted in (None, "number", "number_strict"):
        numbers = [number_target(target) for target in known]
        if None not in numbers:
            return [*numbers], wanted or "number"
        if wanted is not None:
            row = numbers.index(None)
            raise file.error(
                f"the target {known[row]!r:.80} is not a number, as scorer '{wanted}' needs it.",
                row,
            )
    letters = all(re.fullmatch(r"[A-Z]", target) for target in known)
    return [*known], wanted or ("choice_letter" if letters else "exact")


def _question(row: ImportedRow, target: str | None) -> Question:
    return Question(row.question, target or "", {}, row.subset, row.choices)


def _generation(row: ImportedRow, sample_id: str, target: str | None) -> dict[str, Any]:
    known = row.prompt is not None
    return {
        "sample_id": sample_id,
        "index": row.index,
        "repeat": row.repeat,
        "subset": row.subset,
        "prompt": row.prompt,
        "prompt_kind": row.prompt_kind if known else None,
        "prompt_truncated": None,
        "reasoning_open": (row.prompt or "").rstrip().endswith("<think>"),
        "target": target,
        "choices": list(row.choices),
        "text": row.text,
        "reasoning": row.reasoning,
        "label_logprobs": None if row.label_logprobs is None else list(row.label_logprobs),
        "label_method": None,
        "finish_reason": row.finish_reason,
        "prompt_tokens": row.prompt_tokens,
        "completion_tokens": row.completion_tokens,
        "time_to_first_token": None,
        "latency": row.latency,
        "error": row.error,
    }


def _scores(
    original: OriginalScore, rows: Sequence[ImportedRow], kept: Sequence[Mapping[str, Any]]
) -> pa.Table:
    """Return the original's scores; a row that it has no score for is missing."""
    table = []
    for row, generation in zip(rows, kept, strict=True):
        given = row.given.get(original.name)
        value = None if given is None or given.value is None else given.value
        share = None if value is None else (value - original.low) / (original.high - original.low)
        if share is not None and not 0 <= share <= 1:
            share = None  # on a scale that is not known: only the number itself is kept
        extracted = given.extracted if given is not None else None
        if extracted is None and value is not None and share is None:
            extracted = f"{value:g}"
        outcome = "unparsed" if given is not None and given.unread else "scored"
        table.append(
            {
                "sample_id": generation["sample_id"],
                "repeat": row.repeat,
                "subset": row.subset,
                "value": share,
                "extracted": extracted,
                "outcome": "failed" if share is None else outcome,
                "truncated": row.finish_reason == "length",
            }
        )
    return pa.Table.from_pylist(table, schema=SCORE_SCHEMA)


def _plain(value: Json) -> Json:
    """Return a recorded value as it may enter a specification: small, and the same as JSON on every machine."""
    if isinstance(value, Mapping):
        flat = {clean(str(name)): _scalar(part) for name, part in value.items() if part is not None}
        return dict(list(flat.items())[:100])
    return _scalar(value)


def _scalar(value: Json) -> Json:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int) and abs(value) < 2**53:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return _short(value if isinstance(value, str) else as_json(value))


def _short(text: str) -> str:
    return clean(text)[:_MAX_TEXT]
