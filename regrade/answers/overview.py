"""The card of a repository, updated with the answer sets and scorings of a commit.

A row of its table is made of the manifest and the score files of an answer set, and notes their digest. If these files
did not change since, the row is kept: a commit reads the files of the answer sets that it changes, not of all others.
"""

import hashlib
import logging
from collections.abc import Mapping
from contextlib import suppress

from regrade.answers.base import Repository, StoredFile
from regrade.answers.card import CardRow, KeptRow, noted_rows, render_card
from regrade.answers.content import git_oid
from regrade.answers.documents import json_bytes, read_manifest
from regrade.answers.manifest import Manifest
from regrade.answers.scorefile import ScoreFile
from regrade.answers.sets import AnswerSet, manifest_paths
from regrade.errors import DamagedAnswersError
from regrade.rubrics.facts import answers_per_question, judge_run
from regrade.specification import Specification
from regrade.stats.repeats import average_name

logger = logging.getLogger(__name__)

CARD = "README.md"
ROW_FORMAT = "1"
"""Part of the digests; raise it when a row shows something else of the same files."""


def updated_card(
    repository: Repository, head: str | None, new: Mapping[str, Manifest | ScoreFile]
) -> dict[str, bytes]:
    """Return the card with an updated table of answer sets, by its path; empty if the card cannot be changed.

    Damaged answer sets and scorings are left out of the table: they must not block publishing.

    Args:
        repository: Repository of the card.
        head: Newest revision; None before the first commit.
        new: Manifests and score files of the commit, by path.
    """
    stored = repository.files(head) if head is not None else {}
    existing = None
    if head is not None and CARD in stored:
        # Read as bytes, to keep the line ends that people used.
        content = repository.fetch(CARD, head).read_bytes()
        try:
            existing = content.decode()
        except UnicodeDecodeError:  # huggingface_hub commits no such card
            logger.warning(
                "'%s' of '%s' is not UTF-8; its table is not updated", CARD, repository.uri
            )
            return {}
    noted = noted_rows(existing)
    rows: list[CardRow | KeptRow] = []
    for folder, documents in _by_set(stored, new).items():
        digest = _digest(documents, stored, new)
        if digest in noted:
            benchmark, model, answer_set_id = folder.split("/")
            rows.append(KeptRow(benchmark, model, answer_set_id, noted[digest]))
            continue
        with suppress(DamagedAnswersError):
            rows.append(_row(repository, head, documents, stored, new, digest))
    return {CARD: render_card(existing, rows).encode()}


def _by_set(
    stored: Mapping[str, StoredFile], new: Mapping[str, Manifest | ScoreFile]
) -> dict[str, list[str]]:
    """Return the paths of manifest and score files (sorted, so the manifest first) by folder of the answer set."""
    paths = sorted({*stored, *new})
    by_set = {
        path.removeprefix("answers/").removesuffix("/manifest.json"): [path]
        for path in manifest_paths(path for path in paths if path.startswith("answers/"))
    }
    for path in paths:
        above, _, name = path.rpartition("/")
        folder = above.removeprefix("scores/")
        if path.startswith("scores/") and name.endswith(".json") and folder in by_set:
            by_set[folder].append(path)
    return by_set


def _title(file: ScoreFile, specification: Specification) -> str:
    """Return the title of a scoring; the card does not follow labels, so that a judge's result is marked as uncorrected."""
    judged = "uncorrected" if judge_run(specification) is not None else ""
    parts = (file.title, average_name(answers_per_question(specification)), judged)
    return " ".join(filter(None, parts))


def _digest(
    documents: list[str], stored: Mapping[str, StoredFile], new: Mapping[str, Manifest | ScoreFile]
) -> str | None:
    """Return 16 hex digits for the contents of documents; None if the store has no git sha1 of one of them."""
    oids = [git_oid(json_bytes(new[p])) if p in new else stored[p].git_oid for p in documents]
    if None in oids:
        return None
    lines = "\n".join(f"{oid} {path}" for oid, path in zip(oids, documents, strict=True))
    return hashlib.sha256(f"{ROW_FORMAT}\n{lines}".encode()).hexdigest()[:16]


def _row(
    repository: Repository,
    head: str | None,
    documents: list[str],
    stored: Mapping[str, StoredFile],
    new: Mapping[str, Manifest | ScoreFile],
    digest: str | None,
) -> CardRow:
    path, *score_paths = documents
    manifest = new.get(path)
    if not isinstance(manifest, Manifest):
        manifest = read_manifest(repository, path, str(head), stored[path].size)
    answers = AnswerSet(repository, str(head), manifest)
    files: list[ScoreFile] = []
    for score_path in score_paths:
        with suppress(DamagedAnswersError):
            file = new.get(score_path)
            if not isinstance(file, ScoreFile):
                file = answers.score_file(stored[score_path])
            files.append(file)
    return CardRow(
        benchmark=manifest.specification.benchmark.name,
        model=manifest.specification.model.name,
        answer_set_id=manifest.answer_set_id,
        rows=manifest.rows,
        state=manifest.state + (f", {manifest.failed:,} failed" if manifest.failed else ""),
        scores=[
            (
                _title(file, manifest.specification),
                overall.accuracy,
                overall.accuracy_stderr,
                overall.n,
                file.scale,
            )
            for file in files
            for overall in [file.summary.overall]
        ],
        files=digest,
    )
