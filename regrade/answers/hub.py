"""Answer repositories on the Hugging Face Hub: dataset repositories, written with `create_commit` only.

`upload_folder` and `push_to_hub` are not used, because they may split an upload into several commits.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, constants
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.file_download import repo_folder_name
from huggingface_hub.hf_api import RepoFile

from regrade.answers.base import Listing, StoredFile
from regrade.answers.content import REVISION, Content, content_hashes, describe
from regrade.answers.hub_http import HubCalls
from regrade.hub.retries import NotSettledError, RetryPolicy
from regrade.settings.errors import DamagedAnswersError, HeadMovedError, RepositoryError
from regrade.settings.files import file_sha256

# The files of a Hub repository.


def stored_file(entry: RepoFile) -> StoredFile:
    """Convert an entry of huggingface_hub, without the git sha1 of a large file, which is that of its pointer."""
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


FILES_PER_COMMIT = 100
"""Most files in a commit, as the Hub recommends."""
PATHS_PER_REQUEST = 100
"""Most paths in a `paths-info` request."""
LISTINGS_KEPT = 4
"""Most cached listings; the oldest is dropped for a new one."""
SHORTENED = re.compile(r"[0-9a-f]{7,39}")
INITIAL_FILES = {".gitattributes"}
"""Files that the Hub commits itself when a repository is created."""


class HubRepository:
    """A dataset repository on the Hub. `check_writable` or the first commit creates it, as private."""

    def __init__(
        self,
        repo_id: str,
        *,
        endpoint: str | None = None,
        token: str | None = None,
        cache: Path | None = None,
        timeout: float = 120.0,
        retries: RetryPolicy | None = None,
    ) -> None:
        """Name a repository; no request is sent yet.

        Args:
            repo_id: `ORG/NAME`.
            endpoint: Address of the Hub. None: `HF_ENDPOINT`, else https://huggingface.co.
            token: None: `HF_TOKEN`, else the token of `hf auth login`, read at each call.
            cache: Download cache. None: the cache of huggingface_hub (`HF_HUB_CACHE`).
            timeout: Seconds without progress after which a request fails; applies to the whole process.
            retries: Retry policy for transient errors.
        """
        self.repo_id = repo_id
        self._cache = cache
        self._calls = HubCalls(self.uri, endpoint, token, timeout, retries or RetryPolicy())
        self._listings: dict[str, Listing] = {}  # replaced, not changed: threads list at once

    @property
    def uri(self) -> str:
        """`hf://datasets/ORG/NAME`."""
        return f"hf://datasets/{self.repo_id}"

    def head(self) -> str | None:
        """Return the newest commit of `main`, or None if the repository does not exist yet.

        Raises:
            RepositoryError: If it is not found without a token, because it may be private.
        """

        def read(api: HfApi) -> str | None:
            try:
                return api.repo_info(self.repo_id, repo_type="dataset").sha
            except GatedRepoError:
                raise
            except RepositoryNotFoundError:
                if self._calls.token() is None:
                    raise
                return None

        return self._calls.ask("reading its head", read)

    def check_writable(self) -> None:
        """Check that the token may write: create the repository, or ask for write access if it exists.

        Only creating it shows that the token may: its rights in a namespace depend on its kind, its scopes and the
        rules of the organization.

        Raises:
            RepositoryError: If it may not write, or no token is set.
        """
        if self._calls.token() is None:
            raise RepositoryError(
                self.uri,
                f"publishing needs a token. Set `HF_TOKEN` to one with write access to '{self.repo_id}'.",
            )
        if self.head() is None:
            self._create()
        else:
            self._calls.ask(
                "asking for write access",
                lambda api: api.auth_check(self.repo_id, repo_type="dataset", write=True),
            )

    def check_private(self) -> None:
        """Check that the repository cannot be read by everybody.

        Raises:
            RepositoryError: If it is public.
        """

        def read(api: HfApi) -> bool:
            try:
                return bool(api.repo_info(self.repo_id, repo_type="dataset").private)
            except RepositoryNotFoundError:  # it does not exist yet, or is private
                return True

        if not self._calls.ask("checking who may read it", read):
            raise RepositoryError(
                self.uri,
                "it is public, and would publish questions that must stay private. Name a private repository.",
            )

    def resolve(self, revision: str) -> str:
        """Return the 40-digit commit that a branch, tag or shortened commit names."""

        def read(api: HfApi) -> str | None:
            try:
                return api.repo_info(self.repo_id, repo_type="dataset", revision=revision).sha
            except RevisionNotFoundError:
                if not SHORTENED.fullmatch(revision):
                    return None
                commits = api.list_repo_commits(self.repo_id, repo_type="dataset")
                ids = [commit.commit_id for commit in commits]
                fitting = [commit_id for commit_id in ids if commit_id.startswith(revision)]
                return fitting[0] if len(fitting) == 1 else None

        commit = self._calls.ask(f"looking up '{revision}'", read)
        if commit is None:
            raise RepositoryError(
                self.uri,
                f"'{revision}' is not a branch, tag or commit of it, or matches several commits.",
            )
        return commit

    def files(self, revision: str, prefix: str = "") -> Mapping[str, StoredFile]:
        """Return the files in a folder at a revision, by path; empty if the folder does not exist."""
        return self._listing(revision).under(prefix.strip("/"))

    def fetch(self, path: str, revision: str) -> Path:
        """Return a file; its sha256 (small text: git's sha1) is checked every time.

        A content is downloaded once, so that an unchanged file of another revision needs no request.
        """
        stored = self._stored(path, revision)
        blob = self._blob(stored)
        if blob.is_file() and _matches(blob, stored):
            return blob
        for again in (False, True):  # huggingface_hub checks only the size
            local = Path(
                self._calls.ask(
                    f"downloading '{path}'",
                    partial(
                        HfApi.hf_hub_download,
                        repo_id=self.repo_id,
                        filename=path,
                        repo_type="dataset",
                        revision=revision,
                        cache_dir=self._cache,
                        force_download=again,
                    ),
                )
            )
            if _matches(local, stored):
                return local
        raise DamagedAnswersError(
            path,
            f"downloaded twice from '{self.uri}' at {revision[:8]}, its content differs from the committed content.",
        )

    def holds(self, file: StoredFile) -> bool:  # noqa: ARG002 - the Hub keeps what a commit lists
        """Return True."""
        return True

    def commit(
        self,
        additions: Mapping[str, Path | bytes],
        message: str,
        *,
        parent: str | None,
        removed: Collection[str] = (),
    ) -> str:
        """Commit files on top of `parent` and return the new head; existing files are not uploaded again.

        The Hub recommends at most 100 files per commit. If there are more, new Parquet files are committed
        first. They take effect with the last commit, which holds the manifests that list them, and removes files.
        """
        contents = describe(self.uri, additions)
        base = self._begin(contents) if parent is None else parent
        batches = self._batches(contents, base)
        for number, batch in enumerate(batches, 1):
            part = f" ({number}/{len(batches)})" if len(batches) > 1 else ""
            leaving = removed if batch is batches[-1] else ()
            base = self._commit(batch, leaving, message + part, base)
        return base

    def url(self, revision: str, path: str = "") -> str:
        """Return the web page of a file or folder at a revision."""
        kind = "blob" if path.endswith((".parquet", ".json", ".md")) else "tree"
        page = f"{self._calls.api().endpoint}/datasets/{self.repo_id}/{kind}/{revision}"
        return f"{page}/{path}" if path else page

    def _begin(self, contents: Sequence[Content]) -> str:
        """Create the repository and return its initial commit."""
        self._create()
        head = self._calls.ask("reading its head", self._existing_head)
        stored = self._listing(head).files
        if stored.keys() <= INITIAL_FILES or all(holds(stored.get(c.path), c) for c in contents):
            return head
        raise HeadMovedError(
            self.uri, "committing", f"expected no files yet, but revision {head[:8]} has some."
        )

    def _create(self) -> None:
        self._calls.ask(
            "creating the repository",
            lambda api: api.create_repo(
                self.repo_id, repo_type="dataset", private=True, exist_ok=True
            ),
        )

    def _batches(self, contents: Sequence[Content], base: str) -> list[Sequence[Content]]:
        if len(contents) <= FILES_PER_COMMIT:
            return [contents]
        paths = [content.path for content in contents]
        stored = self._calls.ask("comparing files", lambda api: self._entries(api, paths, base))
        new = [c for c in contents if c.path.endswith(".parquet") and c.path not in stored]
        last = [content for content in contents if content not in new]
        room = max(0, FILES_PER_COMMIT - len(last))
        ahead, last = new[room:], new[:room] + last
        starts = range(0, len(ahead), FILES_PER_COMMIT)
        return [*(ahead[start : start + FILES_PER_COMMIT] for start in starts), last]

    def _commit(
        self, contents: Sequence[Content], removed: Collection[str], message: str, parent: str
    ) -> str:
        stored = self._listing(parent).files if removed else {}
        leaving = [path for path in removed if path in stored]  # the Hub refuses other names
        on_parent = False

        def attempt(api: HfApi) -> str | None:
            nonlocal on_parent
            files = [CommitOperationAdd(content.path, content.source) for content in contents]
            try:
                revision = api.create_commit(
                    self.repo_id,
                    [*files, *(CommitOperationDelete(path) for path in leaving)],
                    commit_message=message,
                    repo_type="dataset",
                    parent_commit=parent,
                ).oid
                # Otherwise it is the head, which has these files, and possibly other commits after `parent`.
                on_parent = all(getattr(file, "_is_committed", False) for file in files)
                return revision
            except HfHubHTTPError as error:
                if error.response.status_code == 412:
                    return None  # moved, possibly by an earlier try whose response was lost
                raise

        revision = self._calls.ask("committing", attempt)

        def read_back(api: HfApi) -> str:
            """Return the revision with the contents, even if another client committed them."""
            stored = None if revision is None else self._same(api, contents, leaving, revision)
            if revision is not None and stored is not None:
                if on_parent and (before := self._listings.get(parent)) is not None:
                    self._keep(revision, before.updated(stored, leaving))
                return revision
            head = self._existing_head(api)
            if self._same(api, contents, leaving, head):
                return head
            if revision is None and head != parent:
                raise HeadMovedError(
                    self.uri, "committing", f"the head is {head[:8]}, no longer {parent[:8]}."
                )
            raise NotSettledError

        return self._calls.ask("reading back a commit", read_back)

    def _same(
        self, api: HfApi, contents: Sequence[Content], removed: Sequence[str], revision: str
    ) -> dict[str, StoredFile] | None:
        """Return the stored files if a revision has exactly these contents and no removed file, else None."""
        paths = [*(content.path for content in contents), *removed]
        try:
            stored = self._entries(api, paths, revision)
        except RevisionNotFoundError:  # not visible on all servers of the Hub yet
            return None
        kept = all(holds(stored.get(content.path), content) for content in contents)
        return stored if kept and not any(path in stored for path in removed) else None

    def _existing_head(self, api: HfApi) -> str:
        head = api.repo_info(self.repo_id, repo_type="dataset").sha
        if head is None:
            raise NotSettledError
        return head

    def _blob(self, stored: StoredFile) -> Path:
        """Return the file in which huggingface_hub keeps this content, under any path and revision."""
        folder = repo_folder_name(repo_id=self.repo_id, repo_type="dataset")
        root = self._cache or Path(constants.HF_HUB_CACHE)
        return root / folder / "blobs" / str(stored.sha256 or stored.git_oid)

    def _stored(self, path: str, revision: str) -> StoredFile:
        self._check_revision(revision)
        if (listing := self._listings.get(revision)) is not None:
            entries = listing.files
        else:
            entries = self._calls.ask(
                f"looking for '{path}'", lambda api: self._entries(api, [path], revision)
            )
        if path not in entries:
            raise RepositoryError(self.uri, f"there is no file '{path}' at revision {revision}.")
        return entries[path]

    def _entries(self, api: HfApi, paths: Sequence[str], revision: str) -> dict[str, StoredFile]:
        entries = {}
        for start in range(0, len(paths), PATHS_PER_REQUEST):
            part = list(paths[start : start + PATHS_PER_REQUEST])
            for entry in api.get_paths_info(
                self.repo_id, part, revision=revision, repo_type="dataset"
            ):
                if isinstance(entry, RepoFile):
                    entries[entry.path] = stored_file(entry)
        return entries

    def _listing(self, revision: str) -> Listing:
        self._check_revision(revision)
        if (known := self._listings.get(revision)) is not None:
            return known

        def read(api: HfApi) -> Listing:
            entries = api.list_repo_tree(
                self.repo_id, recursive=True, revision=revision, repo_type="dataset"
            )
            return Listing(stored_file(entry) for entry in entries if isinstance(entry, RepoFile))

        return self._keep(revision, self._calls.ask("listing its files", read))

    def _keep(self, revision: str, listing: Listing) -> Listing:
        self._listings = dict([*self._listings.items()][1 - LISTINGS_KEPT :]) | {revision: listing}
        return listing

    def _check_revision(self, revision: str) -> None:
        if not REVISION.fullmatch(revision):
            raise RepositoryError(
                self.uri, f"'{revision}' is not a commit of 40 hex digits; resolve it first."
            )


def _matches(local: Path, stored: StoredFile) -> bool:
    if stored.sha256 is None:
        return content_hashes(local)[2] == stored.git_oid
    return file_sha256(local) == stored.sha256
