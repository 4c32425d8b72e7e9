"""The files of a Hub repository at one revision, listed once and looked up by folder or path."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping

from huggingface_hub.hf_api import RepoFile

from regrade.answers.base import StoredFile
from regrade.answers.content import Content


class Listing:
    """All files at a revision."""

    def __init__(self, files: Iterable[StoredFile]) -> None:
        self.files = {file.path: file for file in sorted(files, key=lambda file: file.path)}
        self._paths = list(self.files)

    def under(self, folder: str) -> dict[str, StoredFile]:
        """Return the files in a folder by path, sorted; all files if `folder` is empty."""
        if not folder:
            return dict(self.files)
        start = bisect_left(self._paths, folder + "/")
        end = bisect_left(self._paths, folder + "0")  # "0" follows "/"
        return {path: self.files[path] for path in self._paths[start:end]}

    def updated(self, changed: Mapping[str, StoredFile], removed: Collection[str]) -> "Listing":
        """Return the listing of a commit that wrote `changed` and removed files on top of this revision."""
        files = {**self.files, **changed}
        return Listing(file for path, file in files.items() if path not in removed)


def stored_file(entry: RepoFile) -> StoredFile:
    """Convert an entry of huggingface_hub; of a large file, the git sha1 is that of a pointer and left out."""
    if entry.lfs is not None:
        return StoredFile(entry.path, entry.size, entry.lfs.sha256)
    return StoredFile(entry.path, entry.size, None, entry.blob_id)


def holds(file: StoredFile | None, content: Content) -> bool:
    """Return True if a stored file has this content."""
    if file is None or file.size != content.size:
        return False
    if file.sha256 is not None:
        return file.sha256 == content.sha256
    return file.git_oid == content.git_oid
