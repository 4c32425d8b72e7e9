"""Files of a dataset on the Hub, such as the `*-results` of the LLM Engineer's Handbook."""

from pathlib import Path, PurePosixPath

from regrade.answers.opening import open_repository
from regrade.errors import RepositoryError
from regrade.importing.files import READ_BESIDE, SourceFile

SCHEME = "hf://"
_SUFFIXES = (".parquet", ".jsonl", ".json", ".jsonl.gz", ".json.gz", ".zip", ".eval")
"""Endings of the files that a format may have; no others are downloaded."""


def dataset_files(address: str, folder: Path) -> list[SourceFile]:
    """Download the files of a dataset that may hold answers.

    Args:
        address: `hf://datasets/ORG/NAME`, or `hf://datasets/ORG/NAME@REVISION`; the newest revision if none is given.
        folder: Empty folder for the files, under their paths in the dataset, because some formats need these.

    Raises:
        RepositoryError: If there is no such dataset, or it has no such files.
        HubError: If the Hub does not answer.
    """
    uri, _, asked = address.partition("@")
    repository = open_repository(uri, create=False)
    revision = repository.resolve(asked or "main")
    found = []
    for path in repository.files(revision):
        if not path.endswith(_SUFFIXES) or ".." in PurePosixPath(path).parts:
            continue
        local = folder / path
        local.parent.mkdir(parents=True, exist_ok=True)
        local.symlink_to(repository.fetch(path, revision).resolve())
        if not local.match(READ_BESIDE):
            found.append(SourceFile(local, dataset=repository.uri, within=folder))
    if not found:
        raise RepositoryError(
            repository.uri, f"it has no files to import ({', '.join(_SUFFIXES)})."
        )
    return found
