"""Publish answers and scores: changes are derived from the head and committed atomically.

After a commit conflict they are derived again from the new head. Publishing is idempotent: rows that the head
already has are left out, even if another machine published them.
"""

import hashlib
import io
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from regrade.answers.base import Repository
from regrade.answers.documents import json_bytes
from regrade.answers.manifest import Manifest, Session, Shard
from regrade.answers.overview import CARD, updated_card
from regrade.answers.scorefile import ScoreFile
from regrade.answers.sealed import SealedFile
from regrade.answers.sets import AnswerSet, find_set
from regrade.answers.spool import RowKey, ShardKeys, Spool, row_keys
from regrade.errors import HeadMovedError
from regrade.settings import Settings, StoredName
from regrade.specification import Specification

MANIFEST = "manifest.json"
KEYS = ["sample_id", "repeat"]
"""Columns that identify a row."""
Result = TypeVar("Result")


class SetDescription(Settings):
    """The fields of a manifest that are known before generation."""

    specification: Specification
    n_samples: int = Field(ge=1)
    scorers: tuple[StoredName, ...]
    groups: dict[str, tuple[str, ...]] = Field(default_factory=dict)

    def manifest(
        self, shards: Sequence[Shard], sessions: Sequence[Session], created: datetime
    ) -> Manifest:
        """Return the manifest with the given shards and sessions."""
        rows = sum(shard.rows for shard in shards)
        expected = self.n_samples * self.specification.repeats
        return Manifest(
            answer_set_id=self.specification.answer_set_id,
            specification=self.specification,
            state="complete" if rows == expected else "incomplete",
            n_samples=self.n_samples,
            rows=rows,
            shards=tuple(shards),
            sessions=tuple(sessions),
            scorers=self.scorers,
            groups=self.groups,
            created_at=created,
            updated_at=datetime.now(UTC),
        )


def retry_on_conflict(attempt: Callable[[], Result], *, attempts: int = 8) -> Result:
    """Run `attempt`; start over if another commit came first (`HeadMovedError`)."""
    retrying = Retrying(
        retry=retry_if_exception(lambda error: isinstance(error, HeadMovedError)),
        stop=stop_after_attempt(attempts),
        wait=wait_random_exponential(multiplier=0.2, max=10),
        reraise=True,
    )
    return retrying(attempt)


def publish_answers(
    repository: Repository,
    spool: Spool,
    description: SetDescription,
    session: Session | None,
    *,
    only_new: bool = False,
) -> AnswerSet | None:
    """Publish the spool's rows in one commit, then delete them from the spool.

    Args:
        repository: Target repository.
        spool: Open spool of this answer set.
        description: Description of the answer set.
        session: Replaces the session with the same start; None if this process generated nothing.
        only_new: Do nothing if the spool has no rows, not even update the session.

    Returns:
        The answer set at the new head; None if neither the spool nor the repository has rows.
    """
    with spool.publishing:
        sealed = spool.seal()
        if only_new and not sealed:
            return None
        published = _publish_sealed(repository, sealed, description, session, spool.shard_keys)
        spool.release(file.path for file in sealed)
        return published


def _publish_sealed(
    repository: Repository,
    sealed: Sequence[SealedFile],
    description: SetDescription,
    session: Session | None,
    known: ShardKeys,
) -> AnswerSet | None:
    def attempt() -> AnswerSet | None:
        head = repository.head()
        stored = find_set(repository, description.specification, head)
        if stored is None and not sealed:
            return None
        change = _change(stored, description, sealed, session, known)
        if change is None:
            return stored
        manifest, additions = change
        if stored is None or manifest.state == "complete":  # not in every commit of a long run
            additions[CARD] = updated_card(repository, head, {_manifest_path(manifest): manifest})
        specified = description.specification
        message = f"Answers of {specified.model.name} on {specified.benchmark.name}: {manifest.rows} rows, {manifest.state}"
        revision = repository.commit(additions, message, parent=head)
        return AnswerSet(repository, revision, manifest)

    return retry_on_conflict(attempt)


def publish_files(
    repository: Repository,
    sets: Sequence[tuple[SetDescription, Sequence[SealedFile]]],
    message: str,
) -> list[AnswerSet]:
    """Publish answer sets from sealed files, all in one commit; no commit if nothing is new.

    Args:
        repository: Target repository.
        sets: Description and sealed files of each answer set; the files may be empty.
        message: Summary of the commit.

    Returns:
        The answer sets at the new head, in the same order.
    """

    def attempt() -> list[AnswerSet]:
        head = repository.head()
        additions: dict[str, Path | bytes] = {}
        manifests: list[Manifest] = []
        changed: dict[str, Manifest | ScoreFile] = {}
        for description, files in sets:
            stored = find_set(repository, description.specification, head)
            change = _change(stored, description, files, None, {})
            if change is not None:
                changed[_manifest_path(change[0])] = change[0]
                additions.update(change[1])
            manifests.append(change[0] if change else stored.manifest)  # type: ignore[union-attr]
        if head is None or changed:
            additions[CARD] = updated_card(repository, head, changed)
            head = repository.commit(additions, message, parent=head)
        return [AnswerSet(repository, head, manifest) for manifest in manifests]

    return retry_on_conflict(attempt)


def publish_scores(
    repository: Repository, scored: Sequence[tuple[AnswerSet, ScoreFile, pa.Table]]
) -> str | None:
    """Publish scorings of any number of answer sets in one commit and return its revision."""
    if not scored:
        return repository.head()

    def attempt() -> str:
        head = repository.head()
        additions: dict[str, Path | bytes] = {}
        records: dict[str, Manifest | ScoreFile] = {}
        for answers, record, table in scored:
            path = f"{answers.scores_folder}/{record.label}"
            additions[f"{path}.parquet"] = _parquet(table)
            additions[f"{path}.json"] = json_bytes(record)
            records[f"{path}.json"] = record
        additions[CARD] = updated_card(repository, head, records)
        return repository.commit(additions, f"Scores: {len(scored)} scorings", parent=head)

    return retry_on_conflict(attempt)


def _change(
    stored: AnswerSet | None,
    description: SetDescription,
    sealed: Sequence[SealedFile],
    session: Session | None,
    shard_keys: ShardKeys,
) -> tuple[Manifest, dict[str, Path | bytes]] | None:
    """Return the new manifest and the files to commit; None if nothing is new."""
    before = stored.manifest if stored else None
    shards = list(before.shards) if before else []
    additions: dict[str, Path | bytes] = {}
    known = {shard.sha256 for shard in shards}
    new = [file for file in sealed if file.sha256 not in known]
    taken = stored.keys(shard_keys) if stored and new else set()
    folder = f"answers/{description.specification.folder}"
    for file in new:
        shard, content = _shard(file, len(shards), taken)
        if shard is not None:
            shards.append(shard)
            additions[f"{folder}/{shard.name}"] = content
            shard_keys[shard.sha256] = set(row_keys(pq.read_table(_source(content), columns=KEYS)))
    sessions = _with_session(before.sessions if before else (), session)
    created = before.created_at if before else datetime.now(UTC)
    manifest = description.manifest(shards, sessions, created)
    if before and before.model_copy(update={"updated_at": manifest.updated_at}) == manifest:
        return None
    additions[f"{folder}/{MANIFEST}"] = json_bytes(manifest)
    return manifest, additions


def _shard(file: SealedFile, number: int, taken: set[RowKey]) -> tuple[Shard | None, Path | bytes]:
    """Return a shard and its content, without the rows in `taken`; None if no row is left."""
    content: Path | bytes = file.path
    rows, size, sha256 = file.rows, file.bytes, file.sha256
    if taken:
        table = pq.read_table(file.path)
        keep = [key not in taken for key in row_keys(table)]
        if not any(keep):
            return None, content
        if not all(keep):
            table = table.filter(pa.array(keep))
            content = _parquet(table)
            rows, size, sha256 = table.num_rows, len(content), hashlib.sha256(content).hexdigest()
    name = f"part-{number:05d}-{sha256[:8]}.parquet"
    return Shard(name=name, rows=rows, bytes=size, sha256=sha256), content


def _with_session(sessions: Sequence[Session], session: Session | None) -> list[Session]:
    if session is None:
        return list(sessions)
    return [kept for kept in sessions if kept.started_at != session.started_at] + [session]


def _parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def _source(content: Path | bytes) -> Path | io.BytesIO:
    return io.BytesIO(content) if isinstance(content, bytes) else content


def _manifest_path(manifest: Manifest) -> str:
    return f"answers/{manifest.specification.folder}/{MANIFEST}"
