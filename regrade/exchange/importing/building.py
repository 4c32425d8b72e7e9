"""Build an answer set from the result of a reader: its description, rows and original scores."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from regrade.answers.origin import SetDescription
from regrade.benchmarks.questions.samples import Question, number_samples
from regrade.benchmarks.questions.targets import (
    LETTERS,
    RowError,
    letter_target,
    number_target,
    text_target,
    usable_choice_letters,
)
from regrade.exchange.importing.base import FormatName, ImportedRow, ImportedSet, OriginalScore
from regrade.exchange.importing.files import SourceFile
from regrade.exchange.importing.originals import original_scores
from regrade.exchange.importing.record import Json, as_json
from regrade.records.characters import whole_characters
from regrade.records.columns import GENERATION_SCHEMA, TRAJECTORY
from regrade.records.images import Image
from regrade.records.specification import (
    BenchmarkIdentity,
    ModelIdentity,
    PromptIdentity,
    Specification,
)
from regrade.records.trajectory import TrajectoryError, trajectory_text
from regrade.scorers import load_scorer
from regrade.settings import ScorerName
from regrade.settings.errors import SettingsError

# Targets of imported answers in the form that a scorer compares with, and the scorer that fits them.


def read_targets(
    file: SourceFile, imported: ImportedSet, wanted: ScorerName | None
) -> tuple[list[str | None], ScorerName]:
    """Return the targets of all rows for a scorer, and the scorer: `wanted`, that of the file's format, or one that fits them.

    A row without a usable target gets None. More than half of the targets must be usable, except with ranked choices,
    which have no other targets.

    Raises:
        ImportFileError: If most targets do not fit the scorer, or the right choices are ambiguous.
    """
    rows = imported.rows
    wanted = wanted or imported.scorer
    if wanted is not None and all("target" in row.stored for row in rows):
        return [row.stored["target"] for row in rows], wanted
    kind = None if wanted is None else load_scorer(wanted).targets
    has_choices = all(2 <= len(row.choices) <= len(LETTERS) for row in rows)
    values: list[str | None] | None
    fitting: ScorerName
    if imported.method == "rank":
        values, fitting = _letters(file, rows, is_ranked=True), "choice_logprob"
    elif all(row.target is None for row in rows):
        values, fitting = [None] * len(rows), "exact"
    elif has_choices and kind in (None, "letter"):
        values, fitting = _letters(file, rows), "choice_letter"
    elif kind in (None, "number") and (values := _read(file, rows, number_target, wanted)):
        fitting = "number"
    elif kind in (None, "letter") and (values := _read(file, rows, letter_target, wanted)):
        fitting = "choice_letter"
    else:
        values, fitting = _apply(text_target, rows), "exact"
    return values, wanted or fitting


def _is_lost(row: ImportedRow, value: str | None) -> bool:
    return row.target is not None and value is None


def _letters(
    file: SourceFile, rows: Sequence[ImportedRow], *, is_ranked: bool = False
) -> list[str | None]:
    """Letters of the right choices; if these are not clear, none if the choices were ranked."""
    try:
        return usable_choice_letters([row.target for row in rows], [row.choices for row in rows])
    except RowError as error:
        if is_ranked:
            return [None] * len(rows)
        raise file.error(
            f"{error.problem}. Name a scorer that ignores choices, such as `--scorer exact`.",
            rows[error.row].index,
        ) from error


def _read(
    file: SourceFile,
    rows: Sequence[ImportedRow],
    read: Callable[[object], str | None],
    wanted: ScorerName | None,
) -> list[str | None] | None:
    """Values of the targets; None if some cannot be read and no scorer was named."""
    values = _apply(read, rows)
    missed = [row for row, value in zip(rows, values, strict=True) if _is_lost(row, value)]
    if not missed:
        return values
    if wanted is None:
        return None
    if 2 * len(missed) < sum(row.target is not None for row in rows):
        return values
    kind = {"number": "a number", "letter": "a letter"}[load_scorer(wanted).targets]
    raise file.error(
        f"the target {missed[0].target!r:.80} is not {kind}, as scorer '{wanted}' needs it.",
        missed[0].index,
    )


def _apply(read: Callable[[object], str | None], rows: Sequence[ImportedRow]) -> list[str | None]:
    return [None if row.target is None else read(row.target) for row in rows]


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
    benchmark: str
    """Name of the benchmark as in the file, or as the user gave it."""
    description: SetDescription
    table: pa.Table
    """Rows of `GENERATION_SCHEMA`."""
    originals: tuple[tuple[OriginalScore, pa.Table], ...]
    """Metrics of the original tool, each with rows of `SCORING_SCHEMA`, one per generation."""
    unusable: tuple[ImportedRow, ...]
    """Rows whose target in the file cannot be used."""
    images: tuple[Image, ...]
    """Images that the rows show, each once."""


def build(file: SourceFile, format_name: FormatName, imported: ImportedSet, names: Names) -> Built:
    """Build the answer set of a file.

    Raises:
        SettingsError: If neither the file nor `names` has the model or the benchmark.
        ImportFileError: If most targets do not fit the scorer, or two answers have the same question and repetition.
    """
    targets, scorer = read_targets(file, imported, names.scorer)
    answered = list(zip(imported.rows, targets, strict=True))
    questions = {
        row.index: Question(row.content, target or "", {}, row.subset, row.choices)
        for row, target in reversed(answered)  # the first row of a question decides
    }
    order = sorted(questions)
    samples = number_samples([questions[index] for index in order])
    ids = {index: sample.id for index, sample in zip(order, samples, strict=True)}
    rows = [_generation(file, row, ids[row.index], target) for row, target in answered]
    if len({(row["sample_id"], row["repeat"]) for row in rows}) != len(rows):
        raise file.error("two answers to the same question have the same repetition number.")
    images = {image.sha256: image for row in imported.rows for image in row.images}
    repeats = max([imported.repeats or 1, *(row.repeat + 1 for row in imported.rows)])
    description = SetDescription(
        specification=_specification(file, format_name, imported, names, repeats),
        n_samples=max(imported.n_samples or 1, len(order)),
        scorers=(scorer,),
        groups=dict(imported.groups),
        images="stored" if images else None,
    )
    return Built(
        file,
        format_name,
        str(names.benchmark or imported.benchmark),
        description,
        pa.Table.from_pylist(rows, schema=GENERATION_SCHEMA),
        tuple(
            (original, original_scores(original, imported.rows, rows, scorer))
            for original in imported.originals
        ),
        tuple(row for row, target in answered if _is_lost(row, target)),
        tuple(images.values()),
    )


def _specification(
    file: SourceFile, format_name: FormatName, imported: ImportedSet, names: Names, repeats: int
) -> Specification:
    model, benchmark = names.model or imported.model, names.benchmark or imported.benchmark
    for option, value in (("model", model), ("benchmark", benchmark)):
        if not value:
            raise SettingsError(
                f"'{file.name}' ({format_name}) does not name its {option}. Name it with `--{option} NAME`."
            )
    try:
        name = benchmark_name(str(benchmark))
    except SettingsError as error:
        raise file.error(f"{error} Name it with `--benchmark NAME`.") from error
    recorded = {
        field: _plain(value) for field, value in imported.recorded.items() if value is not None
    }
    return Specification(
        model=ModelIdentity(
            name=_short(str(model)),
            kind="imported",
            revision=_short(imported.model_revision or UNKNOWN),
        ),
        benchmark=BenchmarkIdentity(
            name=name,
            version=0,
            source="local",
            source_revision=file.sha256,
            config=None if imported.config is None else _short(imported.config),
            split=_short(imported.split or UNKNOWN),
            limit=imported.limit,
            parameters={"format": format_name, **recorded},
        ),
        prompt=imported.prompt
        or PromptIdentity(
            format=imported.format,
            template="as imported",
            n_shots=imported.n_shots,
            system=None if imported.system is None else whole_characters(imported.system),
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


def _generation(file: SourceFile, row: ImportedRow, sample_id: str, target: str | None) -> Json:
    """Return a row of `GENERATION_SCHEMA`: the fields of the same names, those that are stored in another form, and what regrade knew."""
    same = {name: getattr(row, name) for name in GENERATION_SCHEMA.names if hasattr(row, name)}
    return same | {
        "sample_id": sample_id,
        "prompt_kind": None if row.prompt is None else row.prompt_kind,
        "reasoning_open": (row.prompt or "").rstrip().endswith("<think>"),
        "target": target,
        "images": [image.sha256 for image in row.images] or None,
        TRAJECTORY: _trajectory(file, row),
        **row.stored,
    }


def _trajectory(file: SourceFile, row: ImportedRow) -> str | None:
    try:
        return None if row.trajectory is None else trajectory_text(row.trajectory)
    except TrajectoryError as error:
        raise file.error(f"{error}.", row.index) from error


def _plain(value: Json) -> Json:
    """Reduce a recorded value for the specification: one level, at most 100 fields, finite numbers, short texts."""
    if isinstance(value, Mapping):
        flat = {
            whole_characters(str(name)): _scalar(part)
            for name, part in value.items()
            if part is not None
        }
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
    return whole_characters(text)[:_MAX_TEXT]
