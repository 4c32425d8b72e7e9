"""Index of an answer set: everything that filters and sorts its answers, without their texts."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from regrade.answers.scorefile import ScoreFile
from regrade.answers.sets import AnswerSet
from regrade.pages.viewer.verdicts import Codes, unscored_codes, verdict_codes
from regrade.records.columns import GENERATION_SCHEMA, SCORING_SCHEMA
from regrade.stats.metrics import score_values

COLUMNS = (
    *("sample_id", "index", "repeat", "subset", "target", "finish_reason", "completion_tokens"),
    *("latency", "error"),
)
Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Rows = NDArray[np.int64]
"""Numbers of rows of an answer set, from 0, in stored order."""


@dataclass(frozen=True, slots=True)
class AnswerIndex:
    """Columns of an answer set and of one scoring, in stored order; arrays have shape (n_rows,)."""

    answers: AnswerSet
    scoring: ScoreFile | None
    sample_id: "pa.Array[Any]"
    index: Ints
    repeat: Ints
    subset: Ints
    """Position in `subsets`."""
    subsets: tuple[str, ...]
    target: "pa.Array[Any]"
    tokens: Floats
    """Completion tokens; NaN if unknown."""
    seconds: Floats
    """Latency; NaN if unknown."""
    verdict: Codes
    value: Floats
    """NaN if missing."""
    truncated: NDArray[np.bool_]
    extracted: "pa.Array[Any]"
    start: Ints
    """First character of the text that the scorer read; -1 if unknown."""
    end: Ints
    metrics: "pa.Array[Any]"
    """Named values as JSON; null if the scorer has none."""
    by_number: Rows = field(repr=False)
    """All rows, ordered by the question's number and the repeat."""

    @property
    def rows(self) -> int:
        """Number of answers."""
        return len(self.repeat)

    @property
    def has_tokens(self) -> bool:
        """True if the tokens of some answers are known; then every length is in tokens."""
        return bool(np.isfinite(self.tokens).any())

    def rows_of(self, sample_id: str) -> Rows:
        """Return the rows of a question, by repeat."""
        mask = pc.equal(self.sample_id, pa.scalar(sample_id, self.sample_id.type))
        rows = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
        return rows[np.argsort(self.repeat[rows], kind="stable")]

    def row_of(self, sample_id: str, repeat: int) -> int | None:
        """Return the row of an answer, or None."""
        rows = self.rows_of(sample_id)
        fitting = rows[self.repeat[rows] == repeat]
        return int(fitting[0]) if fitting.size else None


def key_of(answers: AnswerSet, scoring: ScoreFile | None) -> tuple[str, ...]:
    """Return what identifies the content of an answer set with a scoring, which can be made again under its label."""
    made = "" if scoring is None else f"{scoring.label} {scoring.scored_at}"
    return made, *answers.hashes


def read_index(answers: AnswerSet, batches: Iterable[pa.RecordBatch]) -> AnswerIndex:
    """Return the index of an answer set without a scoring.

    Args:
        answers: Answer set.
        batches: All its rows, with `COLUMNS`.
    """
    stored = _stored(batches)
    repeat, number = _numbers(stored, "repeat"), _numbers(stored, "index")
    codes, names = _codes(stored, "subset")
    rows = len(repeat)
    return AnswerIndex(
        answers=answers,
        scoring=None,
        sample_id=stored.column("sample_id").combine_chunks(),
        index=number,
        repeat=repeat,
        subset=codes,
        subsets=names,
        target=stored.column("target").combine_chunks(),
        tokens=_floats(stored, "completion_tokens"),
        seconds=_floats(stored, "latency"),
        verdict=unscored_codes(_mask(stored.column("error"))),
        value=np.full(rows, np.nan, np.float32),
        truncated=_mask(pc.equal(stored.column("finish_reason"), pa.scalar("length"))),
        extracted=pa.nulls(rows, pa.string()),
        start=np.full(rows, -1, np.int32),
        end=np.full(rows, -1, np.int32),
        metrics=pa.nulls(rows, pa.string()),
        by_number=np.lexsort((repeat, number)).astype(np.int64),
    )


def with_scores(
    index: AnswerIndex, answers: AnswerSet, scoring: ScoreFile, table: pa.Table
) -> AnswerIndex:
    """Return an index with a scoring of its answers that need not be stored.

    Args:
        index: Index without a scoring.
        answers: Answer set.
        scoring: The scoring.
        table: Its rows, of `SCORING_SCHEMA`.

    Raises:
        DamagedAnswersError: If the scoring is of all answers, and its rows are of others.
    """
    scores = aligned(table, index.sample_id, index.repeat)
    lacks = scores.column("sample_id").null_count
    if lacks and {*answers.hashes} <= {*scoring.answers}:
        raise answers.other_rows(scoring)
    return replace(
        index,
        answers=answers,
        scoring=scoring,
        verdict=verdict_codes(scores, scoring.scale),
        value=score_values(scores).astype(np.float32),
        truncated=_mask(scores.column("truncated")),
        extracted=scores.column("extracted").combine_chunks(),
        start=_places(scores, "start"),
        end=_places(scores, "end"),
        metrics=scores.column("metrics").combine_chunks(),
    )


def aligned(scores: pa.Table, ids: "pa.Array[Any]", repeat: Ints) -> pa.Table:
    """Return scores with one row per answer, in the order of the answers; answers without a score have null.

    A scoring has the order of the answers it was made of. A stale one may lack some.
    """
    same = scores.num_rows == len(ids) and bool(
        scores.column("sample_id").combine_chunks().equals(ids)
        and (scores.column("repeat").to_numpy() == repeat).all()
    )
    if same:
        return scores
    found = scores.take(_places_of(scores, ids, repeat))
    columns: dict[str, Any] = {name: found.column(name) for name in SCORING_SCHEMA.names}
    columns["outcome"] = pc.fill_null(columns["outcome"], pa.scalar("failed"))
    columns["truncated"] = pc.fill_null(columns["truncated"], pa.scalar(False))
    return pa.table(columns)


def _places_of(scores: pa.Table, ids: "pa.Array[Any]", repeat: Ints) -> "pa.Array[Any]":
    """Return the row of the score of each answer, null without one."""
    rows = scores.num_rows
    if not rows:
        return pa.nulls(len(ids), pa.int64())
    both = pa.concat_arrays([scores.column("sample_id").combine_chunks(), ids])
    questions = both.dictionary_encode().indices.cast(pa.int64()).to_numpy()
    repeats = np.concatenate([scores.column("repeat").to_numpy(), repeat]).astype(np.int64)
    keys = questions * (repeats.max(initial=0) + 1) + repeats
    scored, wanted = keys[:rows], keys[rows:]
    order = np.argsort(scored, kind="stable")
    places = order[np.minimum(np.searchsorted(scored, wanted, sorter=order), rows - 1)]
    return pa.array(places, pa.int64(), mask=scored[places] != wanted)


def _stored(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    types = [GENERATION_SCHEMA.field(name).type for name in COLUMNS[:-1]]
    schema = pa.schema([*zip(COLUMNS, [*types, pa.bool_()], strict=True)])
    return pa.Table.from_batches(_light(batches), schema=schema)


def _light(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches whose errors are only marks, so that no long text is kept."""
    for batch in batches:
        failed = batch["error"].is_valid()
        columns = [failed if name == "error" else batch[name] for name in COLUMNS]
        yield pa.record_batch(columns, names=list(COLUMNS))


def _mask(column: Any) -> NDArray[np.bool_]:  # noqa: ANN401 - chunks or one array of booleans
    mask: NDArray[np.bool_] = column.fill_null(False).to_numpy().astype(np.bool_)
    return mask


def _numbers(table: pa.Table, name: str) -> Ints:
    return table.column(name).to_numpy().astype(np.int32)


def _floats(table: pa.Table, name: str) -> Floats:
    return table.column(name).cast(pa.float64()).to_numpy().astype(np.float32)


def _codes(table: pa.Table, name: str) -> tuple[Ints, tuple[str, ...]]:
    """Return positions in the distinct values, which are sorted."""
    encoded = table.column(name).combine_chunks().dictionary_encode()
    names = [str(value) for value in encoded.dictionary.to_pylist()]
    order = np.argsort(np.array(names, dtype=object), kind="stable")
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    return rank[codes] if len(names) else codes.astype(np.int32), tuple(names[i] for i in order)


def _places(scores: pa.Table, name: str) -> Ints:
    column: Any = scores.column(name)
    places: Ints = column.fill_null(-1).to_numpy().astype(np.int32)
    return places
