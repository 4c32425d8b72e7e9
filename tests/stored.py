"""Answer sets and scorings in a repository, for the tests of what reads them."""

import hashlib
import io
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from regrade.answers.base import Repository
from regrade.answers.figures import metrics_of
from regrade.answers.local import LocalRepository
from regrade.answers.manifest import Shard
from regrade.answers.origin import SetDescription
from regrade.answers.publishing import publish_answers, publish_scores
from regrade.answers.scorefile import ScoreFile
from regrade.answers.sets import AnswerSet, list_sets
from regrade.answers.spool import Spool
from regrade.records.columns import GENERATION_SCHEMA, SCORING_SCHEMA
from regrade.results.results import AnswerSetResult, ScoreResult
from regrade.scoring.score import score_answers
from regrade.stats.metrics import summarise
from regrade.tracking import Scoring
from tests.builders import description, row

OLD = {"version": 0, "source_hash": "0" * 8}
Edit = Callable[[dict[str, Any]], Mapping[str, Any]]


def publish(
    repository: Repository,
    *shards: Sequence[dict[str, Any]],
    total: int | None = None,
    **changes: Any,
) -> AnswerSet:
    """Publish rows, each sequence of them as a shard of its own."""
    n_samples = total or len({row["sample_id"] for rows in shards for row in rows})
    described: SetDescription = description(n_samples, **changes)
    found: AnswerSet | None = None
    for rows in shards:
        with tempfile.TemporaryDirectory() as folder, Spool(Path(folder) / "spool") as spool:
            spool.append(rows)
            found = publish_answers(repository, spool, described)
    assert found is not None
    return found


def numbers(start: int, stop: int, **changes: Any) -> list[dict[str, Any]]:
    """Rows whose answer is right."""
    return [row(number, **changes) for number in range(start, stop)]


def result_of(answers: AnswerSet, *scores: ScoreResult, **changes: Any) -> AnswerSetResult:
    """Return the result of a run that found these answers, and generated none."""
    manifest, specification = answers.manifest, answers.manifest.specification
    found = {
        "benchmark": specification.benchmark.name,
        "model": specification.model.name,
        "answer_set_id": manifest.answer_set_id,
        "revision": answers.revision,
        "url": None,
        "rows": manifest.rows,
        "expected_rows": manifest.expected,
        "repeats": specification.repeats,
        "generated": 0,
        "scores": scores,
        "seconds": {},
    }
    return AnswerSetResult.model_validate(found | changes)


def score(answers: AnswerSet, scorer: str = "number") -> ScoreFile:
    """Score and publish."""
    one = score_answers(answers, scorer, force=True)
    assert one.table is not None
    publish_scores(answers.repository, [(answers, one.file, one.table)])
    return one.file


def score_with_an_older_scorer(
    answers: AnswerSet, edit: Edit, by: str = "number", /, **changes: Any
) -> ScoreFile:
    """Publish what an older version of a scorer may have said: today's rows, edited."""
    one = score_answers(answers, by, force=True)
    assert one.table is not None
    rows = [score | edit(score) for score in one.table.to_pylist()]
    table = pa.Table.from_pylist(rows, schema=SCORING_SCHEMA)
    update = {
        "summary": summarise(table, answers.manifest.groups),
        "scored_at": datetime(2026, 1, 1, tzinfo=UTC),
        **OLD,
        **changes,
    }
    file = one.file.model_copy(update=update)
    publish_scores(answers.repository, [(answers, file, table)])
    return file


def tracked_as(answers: AnswerSet, file: ScoreFile, **changes: Any) -> Scoring:
    """A scoring as MLflow gets it, without times."""
    fields: dict[str, Any] = {
        "manifest": answers.manifest,
        "file": file,
        "revision": answers.revision,
        "repository": answers.repository.uri,
        "url": None,
        "latency": {},
        "figures": metrics_of(changes.get("manifest", answers.manifest), file),
    }
    return Scoring(**(fields | changes))


def by_row(answers: AnswerSet, *columns: str) -> dict[tuple[str, int], dict[str, Any]]:
    """Return some columns of each row by sample id and repeat, after checking that no row is there twice."""
    batches = answers.batches(["sample_id", "repeat", *columns])
    rows = [row for batch in batches for row in batch.to_pylist()]
    found = {(row["sample_id"], row["repeat"]): row for row in rows}
    assert len(found) == len(rows) == answers.manifest.rows
    return found


def again(answers: AnswerSet) -> AnswerSet:
    """The same answer set at the newest revision."""
    head = answers.repository.head()
    assert head is not None
    answer_set_id = answers.manifest.answer_set_id
    return list_sets(answers.repository, head, answer_set_id=answer_set_id)[0]


def sets_in(folder: Path, **filters: str) -> list[AnswerSet]:
    """The answer sets at the newest commit of the repository in a folder."""
    repository = LocalRepository(folder)
    return list_sets(repository, repository.head() or "", **filters)


def parquet_bytes(rows: Sequence[dict[str, Any]], schema: pa.Schema = GENERATION_SCHEMA) -> bytes:
    """Rows as a Parquet file."""
    return table_bytes(pa.Table.from_pylist(list(rows), schema=schema))


def table_bytes(table: pa.Table, **options: Any) -> bytes:
    """A table as a Parquet file."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", **options)
    return buffer.getvalue()


def commit_shards(
    answers: AnswerSet, *shards: bytes | Sequence[dict[str, Any]], rows: int | None = None
) -> AnswerSet:
    """The same set with other shards, and a manifest that fits them, committed as a stranger would.

    Args:
        answers: The set.
        shards: Content of the shards, as rows or as they are.
        rows: What the manifest says of each; for content that is no Parquet or lies.
    """
    files: dict[str, bytes] = {}
    listed = []
    for number, given in enumerate(shards):
        content = given if isinstance(given, bytes) else parquet_bytes(given)
        digest = hashlib.sha256(content).hexdigest()
        name = f"part-{number:05d}-{digest[:8]}.parquet"
        n_rows = rows or pq.read_metadata(io.BytesIO(content)).num_rows
        listed.append(Shard(name=name, rows=n_rows, bytes=len(content), sha256=digest))
        files[f"{answers.folder}/{name}"] = content
    changes = {"shards": tuple(listed), "rows": sum(shard.rows for shard in listed)}
    manifest = answers.manifest.model_copy(update=changes)
    files[f"{answers.folder}/manifest.json"] = manifest.model_dump_json().encode()
    answers.repository.commit(files, "from a stranger", parent=answers.repository.head())
    return again(answers)


def commit_manifest(answers: AnswerSet, **changes: Any) -> str:
    """Commit the set's manifest with other fields, whatever they are, and return the new head."""
    document = answers.manifest.model_dump(mode="json") | changes
    path = f"{answers.folder}/manifest.json"
    repository = answers.repository
    content = json.dumps(document).encode()
    return repository.commit({path: content}, "from a stranger", parent=repository.head())
