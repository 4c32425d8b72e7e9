"""Rows of a dataset on the Hugging Face Hub, pinned to a commit."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
from huggingface_hub import HfApi, constants, hf_hub_download
from huggingface_hub.errors import LocalEntryNotFoundError

from regrade.benchmarks.questions.reading import (
    Source,
    UnreadableError,
    checked_columns,
    first_rows,
    quiet_datasets,
)
from regrade.hub.client import bound_requests, unsigned
from regrade.hub.retries import Problem, RetryPolicy, causes, problem_of
from regrade.settings.errors import HubError, SourceError

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

RETRIES = RetryPolicy(attempts=4)
"""Retries of a request; the task that plans a run tries again later."""
_ASKING = "asking for its revision"
"""The first request, which is not sent again if there is no connection."""

_COMMIT = re.compile(r"[0-9a-f]{40}")
_ACCESS = "it is private or gated; set HF_TOKEN to a token that may read it"

_GATED = "is a gated dataset on the Hub"
"""Part of the message of `datasets` for a gated dataset."""
_ADVICE = "Try again later, or name a file or folder with the same columns (`--source`, or `--dataset.path`)."


class HubSource(Source):
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
        super().__init__(benchmark, repo_id, repo_id)
        self.config, self._revision = config, revision

    def revision(self, splits: Sequence[str]) -> str:  # noqa: ARG002 - one commit holds all splits
        """Return the 40-digit commit."""
        return self._commit

    def rows(
        self, split: str, columns: Sequence[str], head: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the named columns of a split, row by row."""
        return first_rows(self.table(split, columns), head)

    def table(self, split: str, columns: Sequence[str]) -> "Dataset":
        """Return the named columns of a split, which stay on the disk until a row is read."""
        dataset = self._splits
        if split not in dataset:
            names = ", ".join(f"'{name}'" for name in dataset)
            raise self.error(f"there is no split '{split}'; found {names}")
        try:
            return checked_columns(dataset[split], columns)
        except UnreadableError as error:
            raise self.error(f"split '{split}': {error}") from error

    def splits(self, options: Mapping[str, Any]) -> "DatasetDict":
        """Return all splits as datasets.

        Args:
            options: Further arguments of `datasets.load_dataset`, such as `data_files`.

        Raises:
            SourceError: If the dataset cannot be read.
            HubError: If the Hub failed.
        """
        commit = self._commit  # here, because it has retries of its own
        more = {name: value for name, value in options.items() if name != "revision"}
        return RETRIES.call("loading a dataset", lambda: self._load(commit, **more))

    def files(self) -> Sequence[str]:
        """Return the paths of all files.

        Raises:
            SourceError: If the dataset cannot be read.
            HubError: If the Hub failed.
        """
        commit = self._commit

        def ask() -> list[str]:
            bound_requests()
            with self._hub_errors("listing its files", reads_files=False):
                return HfApi().list_repo_files(self.name, repo_type="dataset", revision=commit)

        return RETRIES.call("listing a dataset's files", ask)

    def file(self, path: str) -> Path:
        """Return a copy of a file, for datasets whose files `datasets` cannot load.

        Raises:
            SourceError: If the file cannot be read.
            HubError: If the Hub failed.
        """
        commit = self._commit

        def ask() -> Path:
            bound_requests()
            with quiet_datasets(), self._hub_errors(f"loading '{path}'", reads_files=True):
                found = hf_hub_download(self.name, path, repo_type="dataset", revision=commit)
                return Path(found)

        return RETRIES.call("loading a dataset's file", ask)

    @cached_property
    def _commit(self) -> str:
        if self._revision is not None and _COMMIT.fullmatch(self._revision):
            return self._revision
        return RETRIES.call("asking for a dataset's revision", self._ask_commit)

    def _ask_commit(self) -> str:
        bound_requests()
        with self._hub_errors(_ASKING, reads_files=False):
            info = HfApi().dataset_info(self.name, revision=self._revision)
        if info.sha is None:
            raise self._hub_error(_ASKING, "the Hub named no commit", False)
        return info.sha

    @cached_property
    def _splits(self) -> "DatasetDict":
        return self.splits({})

    def _load(self, commit: str, **options: Any) -> "DatasetDict":  # noqa: ANN401 - of `datasets`
        from datasets import load_dataset_builder

        bound_requests()
        doing = f"loading it at {commit[:8]}"
        with quiet_datasets(), self._hub_errors(doing, reads_files=True):
            # `hf://`, because otherwise a folder of the same name in the working directory would be loaded.
            builder = load_dataset_builder(
                f"hf://datasets/{self.name}", self.config, revision=commit, **options
            )
            if builder.hash != commit:
                # If the Hub does not answer, `datasets` falls back to the commit that it loaded last.
                raise self._hub_error(
                    doing,
                    f"the Hub did not return this commit, and the cache holds {builder.hash}. {_ADVICE}",
                    not constants.is_offline_mode(),
                )
            builder.download_and_prepare()
            return builder.as_dataset()

    @contextmanager
    def _hub_errors(self, doing: str, *, reads_files: bool) -> Iterator[None]:
        from datasets.exceptions import DatasetsError

        try:
            yield
        except (httpx2.HTTPError, DatasetsError, OSError, RuntimeError, ValueError) as error:
            raise self._explained(doing, error, reads_files) from error

    def _explained(self, doing: str, error: Exception, reads_files: bool) -> SourceError | HubError:
        """Return a `SourceError` for wrong input, or a `HubError` for a failure of the Hub.

        Checks the whole chain of causes, because `datasets` wraps failed requests in its own errors.
        """
        match problem := problem_of(error, hidden=True, reads_files=reads_files):
            case Problem.TEMPORARY | Problem.UNREACHABLE | Problem.OFFLINE:
                unreachable = problem is Problem.UNREACHABLE and doing == _ASKING
                retryable = problem is not Problem.OFFLINE and not unreachable
                return self._hub_error(doing, f"{_reason(_decisive(error))}. {_ADVICE}", retryable)
            case Problem.GATED:
                return self.error(self._gated)
            case Problem.NO_REPOSITORY:
                return self.error(f"there is no such dataset on the Hub, or {_ACCESS}")
            case Problem.NO_REVISION:
                return self.error(f"the dataset has no revision '{self._revision}' on the Hub")
            case Problem.UNAUTHORIZED | Problem.FORBIDDEN:
                return self.error(f"the Hub refused access: {_ACCESS}")
        if type(error) in (FileNotFoundError, LocalEntryNotFoundError):
            # Raised if a listing or a download failed; a dataset without data raises a different error.
            return self._hub_error(doing, f"{_reason(error)}. {_ADVICE}", True)
        if _GATED in str(error):  # `datasets` drops the cause
            return self.error(self._gated)
        return self.error(f"{doing} failed: {_reason(error.__cause__ or error)}")

    @property
    def _gated(self) -> str:
        page = f"{constants.ENDPOINT}/datasets/{self.name}"
        return f"it is gated: accept its conditions on {page}, and set HF_TOKEN to a token of that account"

    def _hub_error(self, doing: str, problem: str, retryable: bool) -> HubError:
        return HubError(f"hf://datasets/{self.name}", doing, problem, retryable)


def _decisive(error: BaseException) -> BaseException:
    """Return the failed response or the network's error behind an error of `datasets`."""
    kinds = (httpx2.HTTPError, ConnectionError, TimeoutError)
    return next((link for link in causes(error, hidden=True) if isinstance(link, kinds)), error)


def _reason(error: BaseException) -> str:
    lines = unsigned(str(error)).strip().splitlines() or [type(error).__name__]
    return lines[0][:300].rstrip(".")
