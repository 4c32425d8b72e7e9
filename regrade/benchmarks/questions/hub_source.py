"""Rows of a dataset on the Hugging Face Hub, pinned to a commit."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import httpx2
from huggingface_hub import HfApi
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from regrade.benchmarks.questions.reading import UnreadableError, quiet_datasets, take_rows
from regrade.errors import HubError, SourceError
from regrade.retries import causes, is_transient_status

if TYPE_CHECKING:
    from datasets import DatasetDict

TIMEOUT = 30.0
"""Seconds to wait for the Hub to resolve a revision to a commit."""

_COMMIT = re.compile(r"[0-9a-f]{40}")
_ACCESS = "it is private or gated; set HF_TOKEN to a token that may read it"

_ADVICE = "Try again later, or read a file or folder with the same columns instead."


class HubSource:
    """A Hub dataset. The commit is resolved once; no other commit is ever loaded."""

    def __init__(
        self, benchmark: str, repo_id: str, config: str | None, revision: str | None = None
    ) -> None:
        """Set up the source, without a request to the Hub.

        Args:
            benchmark: Name for messages.
            repo_id: `org/name`.
            config: Configuration of the dataset; None if it has only one.
            revision: Branch, tag or commit; None: the newest commit. A 40-digit commit needs no request.
        """
        self._benchmark, self._revision = benchmark, revision
        self.name, self.config = repo_id, config

    def revision(self, splits: Sequence[str]) -> str:  # noqa: ARG002 - one commit holds all splits
        """Return the 40-digit commit."""
        return self._commit

    def rows(
        self, split: str, columns: Sequence[str], head: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the named columns of a split, row by row."""
        dataset = self._splits
        if split not in dataset:
            names = ", ".join(f"'{name}'" for name in dataset)
            raise self.error(f"there is no split '{split}'; found {names}")
        try:
            return take_rows(dataset[split], columns, head)
        except UnreadableError as error:
            raise self.error(f"split '{split}': {error}") from error

    def error(self, problem: str) -> SourceError:
        """Return an error that names the benchmark and this source."""
        return SourceError(self._benchmark, self.name, problem)

    @cached_property
    def _commit(self) -> str:
        if self._revision is not None and _COMMIT.fullmatch(self._revision):
            return self._revision
        with self._hub_errors("asking for its revision"):
            info = HfApi().dataset_info(self.name, revision=self._revision, timeout=TIMEOUT)
        if info.sha is None:
            raise self._hub_error("asking for its revision", "the Hub named no commit", False)
        return info.sha

    @cached_property
    def _splits(self) -> "DatasetDict":
        from datasets import load_dataset_builder

        doing = f"loading it at {self._commit[:8]}"
        with quiet_datasets(), self._hub_errors(doing):
            # `hf://`, because otherwise a folder of the same name in the working directory would be loaded.
            builder = load_dataset_builder(
                f"hf://datasets/{self.name}", self.config, revision=self._commit
            )
            if builder.hash != self._commit:
                # If the Hub does not answer, `datasets` falls back to the commit that it loaded last.
                raise self._hub_error(
                    doing,
                    f"the Hub did not return this commit, and the cache holds {builder.hash}. {_ADVICE}",
                    True,
                )
            builder.download_and_prepare()
            return builder.as_dataset()

    @contextmanager
    def _hub_errors(self, doing: str) -> Iterator[None]:
        from datasets.exceptions import DatasetsError

        try:
            yield
        except (httpx2.HTTPError, DatasetsError, OSError, RuntimeError, ValueError) as error:
            raise self._explained(doing, error) from error

    def _explained(self, doing: str, error: Exception) -> SourceError | HubError:
        """Return a `SourceError` for wrong input, or a `HubError` for a failure of the Hub.

        Checks the whole chain of causes, because `datasets` wraps failed requests in its own errors.
        """
        links = list(causes(error, hidden=True))
        for link in links:
            if _is_failure(link):
                retryable = not isinstance(link, OfflineModeIsEnabled)
                return self._hub_error(doing, f"{_reason(link)}. {_ADVICE}", retryable)
        for link in links:
            if isinstance(link, GatedRepoError):
                return self.error(_ACCESS)
            if isinstance(link, RepositoryNotFoundError):
                return self.error(f"there is no such dataset on the Hub, or {_ACCESS}")
            if isinstance(link, RevisionNotFoundError):
                return self.error(f"the dataset has no revision '{self._revision}' on the Hub")
            if isinstance(link, HfHubHTTPError) and link.response.status_code in (401, 403):
                return self.error(f"the Hub refused access: {_ACCESS}")
        if type(error) is FileNotFoundError:
            # Raised if a listing failed; a dataset without data raises a different error.
            return self._hub_error(doing, f"{_reason(error)}. {_ADVICE}", True)
        return self.error(f"{doing} failed: {_reason(error.__cause__ or error)}")

    def _hub_error(self, doing: str, problem: str, retryable: bool) -> HubError:
        return HubError(f"hf://datasets/{self.name}", doing, problem, retryable)


def _is_failure(error: BaseException) -> bool:
    if isinstance(error, HfHubHTTPError | httpx2.HTTPStatusError):
        return is_transient_status(error.response.status_code)
    return isinstance(
        error, httpx2.TransportError | ConnectionError | TimeoutError | LocalEntryNotFoundError
    )


def _reason(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:300].rstrip(".")
