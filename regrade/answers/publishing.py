"""Publish answers and scores: changes are derived from the head and committed atomically.

After a commit conflict they are derived again from the new head. Publishing is idempotent: rows that the head
already has are left out, even if another machine published them.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from pydantic import BaseModel
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from regrade.answers.base import Repository
from regrade.answers.documents import json_bytes
from regrade.answers.images import StoredImages, added_images
from regrade.answers.local import LocalRepository
from regrade.answers.manifest import Manifest, Session
from regrade.answers.merging import merge
from regrade.answers.opening import open_repository
from regrade.answers.origin import Origin, SetDescription, read_origin
from regrade.answers.overview import updated_card
from regrade.answers.parquet import SealedFile, parquet_bytes
from regrade.answers.rows import ShardStates
from regrade.answers.scorefile import ScoreFile
from regrade.answers.sets import AnswerSet, find_set
from regrade.answers.spool import ORIGIN, Spool, is_from_this_machine
from regrade.answers.withheld import WithheldQuestions, share_questions
from regrade.settings.errors import HeadMovedError, RegradeError, RepositoryError
from regrade.settings.files import spool_root
from regrade.text.text import part_of

logger = logging.getLogger("regrade.publish")
MANIFEST = "manifest.json"
Result = TypeVar("Result")


def _commit(
    repository: Repository,
    head: str | None,
    documents: Mapping[str, Manifest | ScoreFile],
    message: str,
    *,
    files: Mapping[str, Path | bytes],
    removed: Sequence[str] = (),
    with_card: bool = True,
) -> str:
    """Commit documents by path and the files that they list on top of the head, with the card that shows them."""
    additions = {**files, **{path: json_bytes(document) for path, document in documents.items()}}
    if with_card:
        additions |= updated_card(repository, head, documents, images=files)
    return repository.commit(additions, message, parent=head, removed=removed)


def retry_on_conflict(attempt: Callable[[], Result]) -> Result:
    """Run `attempt`; start over if another commit came first (`HeadMovedError`)."""
    retrying = Retrying(
        retry=retry_if_exception(lambda error: isinstance(error, HeadMovedError)),
        stop=stop_after_attempt(8),
        wait=wait_random_exponential(multiplier=0.2, max=10),
        reraise=True,
    )
    return retrying(attempt)


def keep_document(repository: Repository, path: str, document: BaseModel, message: str) -> str:
    """Commit a JSON document, which replaces an earlier one at its path, and return the revision.

    Raises:
        HubError: If the store failed, or others commit all the time.
        RepositoryError: If writing is not allowed.
    """
    return commit_files(repository, {path: json_bytes(document)}, message)


def commit_files(repository: Repository, files: Mapping[str, Path | bytes], message: str) -> str:
    """Commit files that do not depend on the head, and return the revision."""
    return retry_on_conflict(lambda: repository.commit(files, message, parent=repository.head()))


def publish_answers(
    repository: Repository,
    spool: Spool,
    description: SetDescription,
    *,
    only_new: bool = False,
    goes_on: bool = False,
) -> AnswerSet | None:
    """Publish the spool's rows in one commit, then delete them from the spool.

    Args:
        repository: Target repository.
        spool: Open spool of this answer set; its origin names the sessions, and the shards that its rows replace.
        description: Description of the answer set.
        only_new: Do nothing if the spool has no rows.
        goes_on: More answers follow: those to a question with a long prompt wait in the spool until all of them are there.

    Returns:
        The answer set at the new head; None if neither the spool nor the repository has rows.

    Raises:
        DamagedAnswersError: If a stored shard cannot be read.
    """
    with spool.publishing:
        sealed = spool.seal(
            by_question=description.specification.benchmark.converses,
            repeats=description.specification.repeats if goes_on else 1,
        )
        if only_new and not sealed:
            return None
        published = _publish_sealed(repository, sealed, description, spool)
        spool.release(file.path for file in sealed)
        return published


def _publish_sealed(
    repository: Repository, sealed: Sequence[SealedFile], description: SetDescription, spool: Spool
) -> AnswerSet | None:
    origin = read_origin(spool)

    def attempt() -> AnswerSet | None:
        head = repository.head()
        stored = find_set(repository, description.specification, head)
        if not sealed:  # no row is new; a replaced shard stays until there are rows for it
            return stored and _with_speeds(stored, origin)
        change = _change(stored, description, sealed, origin, spool.shard_states)
        if change is None:
            if stored is not None and isinstance(repository, LocalRepository):
                _keep_whole(repository, stored, sealed)
            return stored
        manifest, files, removed = change
        images, specified = spool.images(), description.specification
        added = added_images(StoredImages(repository, head or "", specified.benchmark.name), images)
        revision = _commit(
            repository,
            head,
            {_manifest_path(manifest): manifest},
            f"Answers of {specified.model.name} on {specified.benchmark.name}: {manifest.rows} rows, {manifest.state}",
            files=files | added.files,
            removed=[*removed, *added.removed],
            # not in every commit of a long run
            with_card=bool(
                stored is None or manifest.state == "complete" or manifest.stopped or added.files
            ),
        )
        spool.release_images(images)
        if origin and origin.fresh and stored and manifest.rows < stored.manifest.rows:
            logger.warning(
                "%s: %s are generated again (`--fresh`) and take the place of the %s from before, which stay at "
                "commit %s (`--revision`). The same `regrade evaluate` without `--fresh` generates the rest",
                *(specified.title, part_of(manifest.rows, manifest.expected, "answer")),
                *(f"{stored.manifest.rows:,}", stored.revision),
            )
        return AnswerSet(repository, revision, manifest)

    return retry_on_conflict(attempt)


def _keep_whole(
    repository: LocalRepository, stored: AnswerSet, sealed: Sequence[SealedFile]
) -> None:
    """Put the files of a commit in order whose process was killed or could not read them back: rows leave the spool next.

    Raises:
        DamagedAnswersError: If a shard is damaged, in which these rows may be.
    """
    files = {file.sha256: file.path for file in sealed}
    paths = {shard.sha256: f"{stored.folder}/{shard.name}" for shard in stored.manifest.shards}
    again: dict[str, Path | bytes] = {paths[key]: files[key] for key in files.keys() & paths.keys()}
    if again:
        repository.commit(again, "The same rows", parent=stored.revision)
    repository.tidy()
    for path in paths.values():
        repository.fetch(path, stored.revision)


@dataclass(frozen=True, slots=True)
class SetFiles:
    """An answer set in files."""

    description: SetDescription
    rows: Sequence[SealedFile] = ()
    images: Sequence[Path] = ()
    """Files of `IMAGE_SCHEMA` with the images that the rows show."""


def publish_files(
    repository: Repository, sets: Sequence[SetFiles], message: str
) -> list[AnswerSet]:
    """Publish answer sets from sealed files, all in one commit; no commit if nothing is new.

    Args:
        repository: Target repository.
        sets: The answer sets. One that has rows keeps them as they are.
        message: Summary of the commit.

    Returns:
        The answer sets at the new head, in the same order.
    """

    def attempt() -> list[AnswerSet]:
        head = repository.head()
        files: dict[str, Path | bytes] = {}
        removed: list[str] = []
        manifests: list[Manifest] = []
        changed: dict[str, Manifest] = {}
        images: dict[str, list[Path]] = {}
        for given in sets:
            described, rows = given.description, given.rows
            stored = find_set(repository, described.specification, head)
            if stored and stored.manifest.rows:
                # The id of an import holds the hash of its file: stored rows are those of the same file.
                kept = {"images": stored.manifest.images}
                described, rows = described.model_copy(update=kept), ()
            elif given.images:
                images.setdefault(described.specification.benchmark.name, []).extend(given.images)
            change = _change(stored, described, rows, None, ShardStates())
            manifest, shards, _ = change or (stored.manifest, {}, [])  # type: ignore[union-attr]
            if change is not None:
                changed[_manifest_path(manifest)] = manifest
            files |= shards
            manifests.append(manifest)
        if head is None or changed:
            for benchmark, pictures in images.items():
                added = added_images(StoredImages(repository, head or "", benchmark), pictures)
                files |= added.files
                removed += added.removed
            head = _commit(repository, head, changed, message, files=files, removed=removed)
        return [AnswerSet(repository, head, manifest) for manifest in manifests]

    return retry_on_conflict(attempt)


def publish_questions(questions: WithheldQuestions) -> None:
    """Add withheld questions to the private repository for them, if one is set; see `share_questions`."""
    retry_on_conflict(lambda: share_questions(questions))


def settled(repository: Repository) -> str | None:
    """Return the head of a repository that gets nothing new, with its files at their paths: a kill may have ended its commit."""
    if isinstance(repository, LocalRepository):
        with suppress(RepositoryError):  # whoever may only read has nothing to write either
            repository.tidy()
    return repository.head()


def publish_scores(
    repository: Repository, scored: Sequence[tuple[AnswerSet, ScoreFile, pa.Table]]
) -> str | None:
    """Publish scorings of any number of answer sets in one commit and return its revision."""
    if not scored:
        return settled(repository)

    def attempt() -> str:
        head = repository.head()
        tables: dict[str, Path | bytes] = {}
        records: dict[str, Manifest | ScoreFile] = {}
        for answers, record, table in scored:
            path = f"{answers.scores_folder}/{record.label}"
            tables[f"{path}.parquet"] = parquet_bytes(table)
            records[f"{path}.json"] = record
            if head != answers.revision:
                records |= _with_scored(repository, head, answers, record, records)
        return _commit(repository, head, records, f"Scorings: {len(scored)}", files=tables)

    return retry_on_conflict(attempt)


def _with_scored(
    repository: Repository,
    head: str | None,
    answers: AnswerSet,
    scored: ScoreFile,
    changed: Mapping[str, Manifest | ScoreFile],
) -> dict[str, Manifest | ScoreFile]:
    """Return the manifest that names shards as replaced that were scored, and that another commit joined or replaced since."""
    path = f"{answers.folder}/{MANIFEST}"
    stored = find_set(repository, answers.manifest.specification, head)
    manifest = changed.get(path, stored and stored.manifest)
    if not isinstance(manifest, Manifest):
        return {}
    known = {*manifest.replaced, *(shard.sha256 for shard in manifest.shards)}
    listed = [shard.sha256 for shard in answers.manifest.shards]
    gone = [sha256 for sha256 in listed if sha256 in scored.answers and sha256 not in known]
    changes = {"replaced": (*manifest.replaced, *gone)}
    return {path: manifest.model_copy(update=changes)} if gone else {}


def _change(
    stored: AnswerSet | None,
    description: SetDescription,
    sealed: Sequence[SealedFile],
    origin: Origin | None,
    known: ShardStates,
) -> tuple[Manifest, dict[str, Path | bytes], list[str]] | None:
    """Return the new manifest, new shards by path, and the paths to remove; None if nothing is new."""
    before = stored.manifest if stored else None
    replaced = origin.replaced if origin else ()
    expected = description.n_samples * description.specification.repeats
    fresh = origin is not None and origin.fresh
    merged = merge(
        stored,
        sealed,
        replaced,
        known,
        expected=expected,
        fresh=fresh,
        by_question=description.specification.benchmark.converses,
    )
    sessions = _sessions(before.sessions if before else (), origin.sessions if origin else ())
    gone = [*(before.replaced if before else ()), *(shard.sha256 for shard in merged.dropped)]
    if stored is not None and merged.joined:  # a scoring of some of the rows is stale
        readable, damaged = stored.readable_scores()
        scored = {sha256 for file in readable for sha256 in file.answers}
        # Of which shards a damaged scoring is, is not known.
        gone += [shard.sha256 for shard in merged.joined if damaged or shard.sha256 in scored]
    created = before.created_at if before else datetime.now(UTC)
    manifest = description.manifest(merged.shards, sessions, created, gone)
    if before and before.model_copy(update={"updated_at": manifest.updated_at}) == manifest:
        return None
    folder = description.specification.answers_folder
    files = {f"{folder}/{name}": content for name, content in merged.added.items()}
    return manifest, files, [f"{folder}/{s.name}" for s in (*merged.dropped, *merged.joined)]


def _sessions(stored: Sequence[Session], noted: Sequence[Session]) -> list[Session]:
    """Return all sessions; a noted session that is stored already is not added again, but may have a speed now."""
    ids = {session.id or session.started_at for session in stored}
    speeds = {session.id: session.speed for session in noted if session.speed is not None}
    return [
        *(
            session.model_copy(update={"speed": speeds[session.id]})
            if session.id in speeds
            else session
            for session in stored
        ),
        *(session for session in noted if (session.id or session.started_at) not in ids),
    ]


def _with_speeds(stored: AnswerSet, origin: Origin | None) -> AnswerSet:
    """Commit speeds and early ends of sessions whose rows are published, if there are any."""
    known = {session.id for session in stored.manifest.sessions}
    noted = [session for session in (origin.sessions if origin else ()) if session.id in known]
    sessions = tuple(_sessions(stored.manifest.sessions, noted))
    if sessions == stored.manifest.sessions:
        return stored
    manifest = stored.manifest.model_copy(update={"sessions": sessions})
    documents, named = {_manifest_path(manifest): manifest}, manifest.specification
    message = f"Speed of {named.model.name} on {named.benchmark.name}"
    revision = _commit(stored.repository, stored.revision, documents, message, files={})
    return AnswerSet(stored.repository, revision, manifest)


def _manifest_path(manifest: Manifest) -> str:
    return f"{manifest.specification.answers_folder}/{MANIFEST}"


# Publish answers that an earlier run left in a spool, without an engine.


@dataclass(frozen=True, slots=True)
class Leftover:
    """Result of publishing one spool."""

    folder: Path
    repository: str | None
    published: AnswerSet | None
    error: RegradeError | None
    """Reason why it could not be published; None if it was published or empty."""


def publish_leftovers(repository_uri: str | None = None) -> Iterator[Leftover]:
    """Publish all spools of this machine, one after the other.

    Args:
        repository_uri: Only spools of this repository (`Repository.uri`). None: all.

    Yields:
        The result of each spool. A spool that fails stays unchanged, and the others go on.
    """
    for path in sorted(spool_root().glob(f"*/*/{ORIGIN}")):
        yield from _publish(path.parent, repository_uri)


def publish_siblings(folder: Path) -> Iterator[Leftover]:
    """Publish the other spools of an answer set that runs of this machine left: those of other shares, or of none.

    Args:
        folder: Folder of the answer set's spool, which is left out. Spools of other machines on the same file system are
            left out too: they publish them themselves, or `regrade publish` does.
    """
    answer_set_id = folder.name.partition(".")[0]
    for path in sorted(folder.parent.glob(f"{answer_set_id}*/{ORIGIN}")):
        if path.parent != folder and is_from_this_machine(path.parent):
            yield from _publish(path.parent, None)


def _publish(folder: Path, only: str | None) -> Iterator[Leftover]:
    uri = None
    try:
        with Spool(folder, only_publishes=True) as spool:
            noted = spool.origin()  # of whichever version: an error below names its repository
            if noted is None or only not in (None, noted.get("repository")):
                return
            uri = noted.get("repository")
            origin = read_origin(spool)
            assert origin is not None  # noqa: S101 - it is noted
            repository = open_repository(origin.repository, create=True)
            published = publish_answers(repository, spool, origin.description)
            if published is not None and published.manifest.state == "complete":
                spool.remove()
    except RegradeError as error:
        yield Leftover(folder, uri, None, error)
    else:
        yield Leftover(folder, uri, published, None)
