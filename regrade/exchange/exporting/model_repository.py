"""The folder `.eval_results` in a model's repository on the Hub: read, compared with new results, and written."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from huggingface_hub import CommitOperationAdd, EvalResultEntry, eval_result_entries_to_yaml
from huggingface_hub.errors import EntryNotFoundError
from huggingface_hub.hf_api import HfApi, RepoFile

from regrade.answers.hub_http import HubCalls
from regrade.exchange.exporting.hub_results import HubResult
from regrade.hub.retries import RetryPolicy
from regrade.settings.errors import RepositoryError

FOLDER = ".eval_results"
SOURCE_NAME = "Answers and scores"
MAX_BYTES = 1 << 20
"""Largest file read in the folder."""
How = Literal["commit", "pull request"]


@dataclass(frozen=True, slots=True)
class Planned:
    """Files to write."""

    files: dict[str, str]
    """Content by path; empty if the repository has all results already."""
    parent: str
    """Commit that they were derived from."""


class ModelRepository:
    """A model's repository."""

    def __init__(
        self, model: str, *, endpoint: str | None = None, token: str | None = None
    ) -> None:
        """Name a repository; no request is sent yet.

        Args:
            model: `ORG/NAME`.
            endpoint: Address of the Hub. None: `HF_ENDPOINT`, else https://huggingface.co.
            token: None: `HF_TOKEN`, else the token of `hf auth login`.
        """
        self.model = model
        self._calls = HubCalls(f"hf://{model}", endpoint, token, 120.0, RetryPolicy())
        # Not repeated, because a try whose response was lost may have opened a pull request.
        self._once = HubCalls(f"hf://{model}", endpoint, token, 120.0, RetryPolicy(attempts=1))

    def plan(self, results: Sequence[HubResult], *, replace: bool) -> Planned:
        """Return the files that the repository needs; other entries in them are kept.

        Args:
            results: Results to publish, at most one for each task.
            replace: Replace entries for the same task that came from elsewhere.

        Raises:
            RepositoryError: If the repository does not exist, a file cannot be read, or the task has a result from
                elsewhere and `replace` is not set.
            HubError: If the Hub does not answer.
        """
        parent = self._calls.ask("reading its head", lambda api: api.model_info(self.model).sha)
        stored = self._stored(str(parent))
        files: dict[str, str] = {}
        for result in results:
            entries = stored.get(result.part.file, [])
            self._check(result, stored, replace)
            kept = [entry for entry in entries if not _is_of(entry, result)]
            wanted = [*kept, *eval_result_entries_to_yaml([_entry(result)])]
            if wanted != entries:
                files[result.part.file] = yaml.safe_dump(
                    wanted, sort_keys=False, allow_unicode=True, width=100
                )
        return Planned(files, str(parent))

    def write(self, planned: Planned, how: How) -> str:
        """Write files in one commit, or propose them as a pull request; return its address.

        Raises:
            RepositoryError: If the token does not allow it.
            HubError: If the Hub failed, or another commit came first.
        """
        operations = [
            CommitOperationAdd(path, content.encode()) for path, content in planned.files.items()
        ]
        titles = ", ".join(path.removeprefix(f"{FOLDER}/") for path in planned.files)

        def commit(api: HfApi) -> str:
            made = api.create_commit(
                self.model,
                operations,
                commit_message=f"Evaluation results: {titles}",
                commit_description="Published by regrade; each result names the answers and scores it comes from.",
                repo_type="model",
                create_pr=how == "pull request",
                parent_commit=planned.parent,
            )
            return str(made.pr_url if how == "pull request" else made.commit_url)

        name = "opening a pull request" if how == "pull request" else "committing"
        return self._once.ask(name, commit)

    def _stored(self, revision: str) -> dict[str, list[dict[str, Any]]]:
        """Return the entries of each file."""

        def listing(api: HfApi) -> list[RepoFile]:
            try:
                tree = api.list_repo_tree(self.model, FOLDER, revision=revision)
                return [file for file in tree if isinstance(file, RepoFile)]
            except EntryNotFoundError:  # no folder yet
                return []

        files = self._calls.ask(f"listing '{FOLDER}'", listing)
        paths = [file for file in files if file.path.endswith((".yaml", ".yml"))]
        return {file.path: self._entries(file, revision) for file in paths}

    def _entries(self, file: RepoFile, revision: str) -> list[dict[str, Any]]:
        if file.size > MAX_BYTES:
            raise self._error(file.path, f"it has {file.size:,} bytes, too many for results.")

        def download(api: HfApi) -> str:
            path = api.hf_hub_download(self.model, file.path, revision=revision)
            return Path(path).read_text(encoding="utf-8")

        try:
            text = self._calls.ask(f"downloading '{file.path}'", download)
            # An alias of aliases stands for any number of values, and is written out wherever one is compared or named.
            if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
                raise self._error(file.path, "it has aliases (`*name`). Write out what they mean.")
            entries = yaml.safe_load(text)
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
            raise self._error(file.path, "it is not YAML. Correct it first.") from error
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise self._error(file.path, "it is not a list of results. Correct it first.")
        return entries

    def _check(
        self, result: HubResult, stored: dict[str, list[dict[str, Any]]], replace: bool
    ) -> None:
        """Refuse to publish beside, or over, a result for the same task that came from elsewhere."""
        own = result.source_url.split("/tree/")[0]
        for path, entries in stored.items():
            for entry in entries:
                source = entry.get("source")
                url = str(source.get("url", "")) if isinstance(source, dict) else ""
                ours = url.split("/tree/")[0] == own and path == result.part.file
                if not _is_of(entry, result) or ours or (replace and path == result.part.file):
                    continue
                advice = "remove that entry first"
                if path == result.part.file:
                    advice = "`--replace` replaces it"
                raise self._error(
                    path,
                    f"it has a result for {result.part.dataset}, task {result.part.task}, from "
                    f"{url or 'an unnamed source'}; {advice}.",
                )

    def _error(self, path: str, problem: str) -> RepositoryError:
        return RepositoryError(f"hf://{self.model}", f"'{path}': {problem}")


def _is_of(entry: dict[str, Any], result: HubResult) -> bool:
    dataset = entry.get("dataset")
    return (
        isinstance(dataset, dict)
        and dataset.get("id") == result.part.dataset
        and dataset.get("task_id") == result.part.task
    )


def _entry(result: HubResult) -> EvalResultEntry:
    return EvalResultEntry(
        dataset_id=result.part.dataset,
        task_id=result.part.task,
        value=result.value,
        dataset_revision=result.dataset_revision,
        date=result.date,
        source_url=result.source_url,
        source_name=SOURCE_NAME,
        notes=result.notes,
    )
