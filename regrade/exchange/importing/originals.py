"""Scores of the original tool, as rows of `SCORING_SCHEMA`."""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from regrade.exchange.importing.base import ImportedRow, OriginalScore, RowScore
from regrade.exchange.importing.files import SourceFile
from regrade.records.columns import GENERATION_SCHEMA, SCORING_SCHEMA
from regrade.scorers import load_scorer, method_of
from regrade.scorers.base import SHARED_COLUMNS
from regrade.scorers.sessions import SessionScorer
from regrade.settings import ScorerName
from regrade.settings.errors import SettingsError

logger = logging.getLogger("regrade")
_MISSING = RowScore(None)


def original_scores(
    original: OriginalScore,
    rows: Sequence[ImportedRow],
    generations: Sequence[Mapping[str, Any]],
    scorer: ScorerName,
) -> pa.Table:
    """Scores of one metric; rows without a score have the outcome `failed`.

    A value outside of a known scale is kept as text only. If it is outside of the scale from 0 to 1, the scale is not known, and so no
    value is a share: a mean of the others would be wrong.

    Args:
        original: The metric.
        rows: Rows of the file, with the tool's scores.
        generations: The same rows in `GENERATION_SCHEMA`.
        scorer: Compares extracted answers with the targets, if the tool recorded no values.
    """
    scores = [row.scores.get(original.name, _MISSING) for row in rows]
    if original.by_target:
        scores = _compared(scores, generations, scorer)
    outside = [score.value for score in scores if original.refusal(score.value)]
    has_scale = not outside or (original.low, original.high) != (0.0, 1.0)
    if not has_scale:
        logger.warning(
            "The scale of the score '%s' is not known: it is not from 0 to 1, as %g shows. Its values are kept as text.",
            original.name,
            outside[0],
        )
    table = []
    for generation, score in zip(generations, scores, strict=True):
        value, extracted, share = score.value, score.extracted, None
        if value is not None and has_scale and not original.refusal(value):
            share = (value - original.low) / (original.high - original.low)
        elif value is not None and extracted is None:
            extracted = f"{value:g}"
        outcome = "unparsed" if score.unread else "scored"
        table.append(
            {
                **{name: generation[name] for name in ("sample_id", "repeat", "subset")},
                "value": share,
                "extracted": extracted,
                "outcome": "failed" if share is None else outcome,
                "truncated": generation["finish_reason"] == "length",
            }
        )
    return pa.Table.from_pylist(table, schema=SCORING_SCHEMA)


def source_hash(file: SourceFile, number: int, name: str) -> str:
    """Short hash that identifies an original score: of the file; from the second score on, of the file and the name."""
    if number == 0:
        return file.sha256[:8]
    return hashlib.sha256(f"{file.sha256}\0{name}".encode()).hexdigest()[:8]


def _compared(
    scores: Sequence[RowScore], generations: Sequence[Mapping[str, Any]], scorer_name: ScorerName
) -> list[RowScore]:
    """Scores of extracted answers: the scorer reads them as if each were a whole answer.

    A row without an answer or a target has no score; a row from whose answer nothing was extracted is wrong.
    """
    scorer = load_scorer(scorer_name)
    if method_of(scorer) == "rank":
        scorer = load_scorer("choice_letter")
    if isinstance(scorer, SessionScorer):
        raise SettingsError(
            f"Scorer '{scorer_name}' cannot score the extracted answers of an imported file. Choose another one with "
            "`--scorer`."
        )
    columns = list(dict.fromkeys([*SHARED_COLUMNS, *scorer.columns]))
    asked = [
        {**generation, "text": score.extracted, "reasoning_open": False}
        for score, generation in zip(scores, generations, strict=True)
        if score.extracted is not None and _comparable(generation)
    ]
    schema = pa.schema([GENERATION_SCHEMA.field(name) for name in columns])
    batch = pa.RecordBatch.from_pylist(asked, schema=schema)
    values = iter(scorer.score(batch)["value"].to_pylist())
    return [
        _MISSING
        if not _comparable(generation)
        else RowScore(0.0, unread=True)
        if score.extracted is None
        else RowScore(next(values), score.extracted)
        for score, generation in zip(scores, generations, strict=True)
    ]


def _comparable(generation: Mapping[str, Any]) -> bool:
    return (
        generation["target"] is not None
        and generation["text"] is not None
        and generation["error"] is None
    )
