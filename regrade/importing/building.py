"""Build an answer set from the result of a reader: its description, rows and original scores."""

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

import pyarrow as pa

from regrade.answers.origin import SetDescription
from regrade.benchmarks.questions.samples import Question, number_samples
from regrade.benchmarks.questions.targets import RowError, choice_letters, number_target
from regrade.errors import SettingsError
from regrade.importing.base import FormatName, ImportedRow, ImportedSet, OriginalScore, RowScore
from regrade.importing.files import SourceFile
from regrade.importing.record import Json, as_json, clean
from regrade.records import GENERATION_SCHEMA, SCORE_SCHEMA
from regrade.settings import ScorerName
from regrade.specification import BenchmarkIdentity, ModelIdentity, PromptIdentity, Specification

UNKNOWN = "unknown"
"""Revision or split that is not in the file."""
_MAX_NAME = 63
"""Longest benchmark name, in characters."""
_MAX_TEXT = 1000
"""Longest text in a specification, in characters; longer texts are cut."""


@dataclass(frozen=True, slots=True)
class Names:
    """Names given by the user; they override the file's."""

    model: str | None = None
    benchmark: str | None = None
    scorer: ScorerName | None = None


@dataclass(frozen=True, slots=True)
class Built:
    """An answer set that is ready to be published."""

    file: SourceFile
    format: FormatName
    description: SetDescription
    table: pa.Table
    """Rows of `GENERATION_SCHEMA`."""
    originals: tuple[tuple[OriginalScore, pa.Table], ...]
    """Metrics of the original tool, each with rows of `SCORE_SCHEMA`, one per generation."""


def build(file: SourceFile, format_name: FormatName, imported: ImportedSet, names: Names) -> Built:
    """Build the answer set of a file.

    Raises:
        SettingsError: If neither the file nor `names` has the model or the benchmark.
        ImportFileError: If a target does not fit the scorer, or two answers have the same question and repetition.
    """
    targets, scorer = _targets(file, imported, names.scorer)
    answered = list(zip(imported.rows, targets, strict=True))
    questions = {
        row.index: Question(row.question, target or "", {}, row.subset, row.choices)
        for row, target in reversed(answered)  # the first row of a question decides
    }
    order = sorted(questions)
    samples = number_samples([questions[index] for index in order])
    ids = {index: sample.id for index, sample in zip(order, samples, strict=True)}
    if len({(row.index, row.repeat) for row in imported.rows}) != len(imported.rows):
        raise file.error("two answers to the same question have the same repetition number.")
    rows = [_generation(row, ids[row.index], target) for row, target in answered]
    repeats = max([imported.repeats or 1, *(row.repeat + 1 for row in imported.rows)])
    description = SetDescription(
        specification=_specification(file, format_name, imported, names, repeats),
        n_samples=max(imported.n_samples or 1, len(order)),
        scorers=(scorer,),
    )
    return Built(
        file,
        format_name,
        description,
        pa.Table.from_pylist(rows, schema=GENERATION_SCHEMA),
        tuple(
            (original, _scores(original, imported.rows, rows)) for original in imported.originals
        ),
    )


def source_hash(file: SourceFile, number: int, name: str) -> str:
    """Short hash that identifies an original score: of the file; from the second score on, of the file and the name."""
    if number == 0:
        return file.sha256[:8]
    return hashlib.sha256(f"{file.sha256}\0{name}".encode()).hexdigest()[:8]


def _specification(
    file: SourceFile, format_name: FormatName, imported: ImportedSet, names: Names, repeats: int
) -> Specification:
    model, benchmark = names.model or imported.model, names.benchmark or imported.benchmark
    for option, value in (("model", model), ("benchmark", benchmark)):
        if not value:
            raise SettingsError(
                f"'{file.path}' ({format_name}) does not name its {option}. Name it with `--{option} NAME`."
            )
    recorded = {
        name: _plain(value) for name, value in imported.recorded.items() if value is not None
    }
    return Specification(
        model=ModelIdentity(
            name=_short(str(model)),
            kind="imported",
            revision=_short(imported.model_revision or UNKNOWN),
        ),
        benchmark=BenchmarkIdentity(
            name=benchmark_name(str(benchmark)),
            version=0,
            source="local",
            source_revision=file.sha256,
            config=None if imported.config is None else _short(imported.config),
            split=_short(imported.split or UNKNOWN),
            limit=imported.limit,
            parameters={"format": format_name, **recorded},
        ),
        prompt=PromptIdentity(
            format=imported.format,
            template="as imported",
            n_shots=imported.n_shots,
            system=None if imported.system is None else clean(imported.system),
        ),
        method=imported.method,
        sampling=None,
        repeats=repeats,
    )


def benchmark_name(text: str) -> str:
    """Convert text to a benchmark name: lower-case letters, digits, `-` and `_`.

    Raises:
        SettingsError: If no letter from a to z and no digit is left.
    """
    name = re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-_")[:_MAX_NAME]
    if not name:
        raise SettingsError(
            f"'{text}' cannot be a benchmark name: it needs a letter from a to z or a digit."
        )
    return name


def _targets(
    file: SourceFile, imported: ImportedSet, wanted: ScorerName | None
) -> tuple[list[str | None], ScorerName]:
    """Targets in the form that the scorer needs, and the scorer: `wanted`, or the one that fits the targets."""
    raw = [row.target for row in imported.rows]
    known = [target for target in raw if target is not None]
    if len(known) < len(raw) or not raw:
        return raw, wanted or "exact"  # scoring reports the missing targets
    if imported.method == "rank":
        return raw, wanted or "choice_logprob"
    if all(2 <= len(row.choices) <= len(ascii_uppercase) for row in imported.rows) and wanted in (
        None,
        "choice_letter",
    ):
        try:
            return [*choice_letters(known, [row.choices for row in imported.rows])], "choice_letter"
        except RowError as error:
            raise file.error(
                f"{error.problem}. Name a scorer that ignores choices, such as `--scorer exact`.",
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


def _generation(row: ImportedRow, sample_id: str, target: str | None) -> dict[str, Any]:
    return {
        "sample_id": sample_id,
        "index": row.index,
        "repeat": row.repeat,
        "subset": row.subset,
        "prompt": row.prompt,
        "prompt_kind": None if row.prompt is None else row.prompt_kind,
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
    original: OriginalScore, rows: Sequence[ImportedRow], generations: Sequence[Mapping[str, Any]]
) -> pa.Table:
    """Scores of one metric; rows without a score have the outcome `failed`."""
    table = []
    for row, generation in zip(rows, generations, strict=True):
        score = row.scores.get(original.name, RowScore(None))
        value, extracted = score.value, score.extracted
        share = None if value is None else (value - original.low) / (original.high - original.low)
        if share is not None and not 0 <= share <= 1:  # outside the scale: kept as text only
            share = None
            extracted = f"{value:g}" if extracted is None else extracted
        outcome = "unparsed" if score.unread else "scored"
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
    """Reduce a recorded value for the specification: one level, at most 100 fields, finite numbers, short texts."""
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
