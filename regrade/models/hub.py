"""Models on the Hugging Face Hub: their commit, and properties from their small files."""

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from huggingface_hub import (
    HfApi,
    ModelInfo,
    constants,
    get_token,
    hf_hub_download,
    snapshot_download,
)
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

from regrade.hub.client import bound_requests
from regrade.hub.retries import FAILURES, Problem, RetryPolicy, brief, is_transient, problem_of
from regrade.models.base import ADAPTER_CONFIG, ResolvedModel, adapter_hint, properties, read_json
from regrade.records.specification import ModelIdentity
from regrade.settings.errors import HubError, ModelError, OperationError

_Answer = TypeVar("_Answer")
RETRIES = RetryPolicy(attempts=4)
"""Retries of a request; the task that plans a run tries again later."""
_ASKING = "asking for its commit"
"""The first request, which is not sent again if there is no connection."""
_PATH = "If the model is in a folder, give its path: answers store only its name."
_MISTRAL_TOKENIZERS = (
    "tekken.json",
    *(f"tokenizer.model.{version}" for version in ("v1", "v2", "v3", "v7", "v7m1")),
)


def resolve_on_hub(name: str, quantization: str | None) -> ResolvedModel:
    """Return the model at the current commit of a branch or tag (default: `main`).

    Args:
        name: `org/name`, or `org/name@revision`.
        quantization: Quantization to apply to the checkpoint.

    Raises:
        ModelError: If the model or revision does not exist, or the token has no access.
        HubError: If the Hub cannot be reached or fails.
    """
    repository, _, revision = name.partition("@")
    commit, config = first_file(name, repository, revision or None, "config.json", "params.json")
    if config is None:
        adapter = hub_file(repository, commit, ADAPTER_CONFIG)
        hint = "" if adapter is None else f" {adapter_hint(name, read_json(adapter, name))}"
        raise ModelError(
            name,
            f"it has neither 'config.json' nor 'params.json' on the Hub, so vLLM cannot load it.{hint}",
        )
    content = read_json(config, name)
    in_code = _is_rendered_in_code(repository, commit)
    return ResolvedModel(
        identity=ModelIdentity(
            name=repository, kind="hub", revision=commit, quantization=quantization
        ),
        path=repository,
        revision=commit,
        **properties(
            content, lambda file: hub_file(repository, commit, file), name=name, in_code=in_code
        ),
    )


def _is_rendered_in_code(repository: str, commit: str) -> bool:
    """Return True if vLLM uses Mistral's own tokenizer, which has no template."""
    if (
        hub_file(repository, commit, "params.json") is None
    ):  # it comes with weights in Mistral's own format
        return False
    return any(hub_file(repository, commit, file) is not None for file in _MISTRAL_TOKENIZERS)


def endpoint() -> str | None:
    """Return the address of the Hub if it is set; None for huggingface_hub's default."""
    return os.environ.get("HF_ENDPOINT") or None


def first_file(
    name: str, repository: str, revision: str | None, *files: str
) -> tuple[str, Path | None]:
    """Return the current commit of a model repository's branch or tag, and a copy of the first of some files that it has.

    Args:
        name: The user's name for it, for messages.
        repository: `org/name`.
        revision: Branch, tag or commit. None: `main`.
        files: Names of files.

    Raises:
        ModelError: If the repository or revision does not exist, or the token has no access.
        HubError: If the Hub cannot be reached or fails.
    """
    bound_requests()
    commit = _named_errors(name, repository, revision, lambda: _ask_commit(repository, revision))
    for file in files:
        # By branch or tag, so that the cache stores its commit for offline use.
        path = hub_file(repository, revision, file)
        if path is not None:
            snapshot = path.parents[file.count("/")]
            return snapshot.name, path  # the branch may have a newer commit by now
    return commit, None


def _named_errors(
    name: str, repository: str, revision: str | None, ask: Callable[[], _Answer]
) -> _Answer:
    """Ask the Hub about a model's commit, with retries and errors that say what to do."""
    try:
        doing = f"reading the commit of '{name}', which is no folder here"
        return RETRIES.call(doing, ask, needs_network=True)
    except HFValidationError as error:
        raise ModelError(name, f"not a folder, and not a valid name on the Hub: {error}") from error
    except LocalEntryNotFoundError as error:
        raise ModelError(
            name,
            "not a folder, and not in the local Hub cache. Unset HF_HUB_OFFLINE to download it.",
        ) from error
    except FAILURES as error:
        match problem_of(error):
            case Problem.GATED:
                problem = (
                    f"it is gated, and {_who()} has no access yet. Ask for access on its page."
                )
                raise ModelError(name, problem) from error
            case Problem.NO_REVISION:
                raise ModelError(name, f"it has no revision '{revision}' on the Hub.") from error
            case Problem.NO_REPOSITORY:
                problem = (
                    f"not a folder, and not a model on the Hub that {_who()} can see. Check the name; set HF_TOKEN if "
                    f"it is private. {_PATH}"
                )
                raise ModelError(name, problem) from error
            case Problem.UNREACHABLE:
                problem = (
                    f"there is no folder '{name}' in '{Path.cwd()}', and no connection to {endpoint() or constants.ENDPOINT} "
                    f"({error}) to look for it on the Hub. Correct the name if it is a folder's, connect this machine, or set "
                    f"HF_HUB_OFFLINE=1 for a cached model. {_PATH}"
                )
                raise HubError(f"hf://{repository}", _ASKING, problem, False) from error
        problem = (
            f"no commit from {endpoint() or constants.ENDPOINT} ({brief(error)}). "
            "To work without the Hub, name a folder, or set HF_HUB_OFFLINE=1 for a cached model."
        )
        raise hub_error(repository, _ASKING, error, problem) from error


def hub_revisions(name: str, repository: str) -> list[str]:
    """Return the branches and tags of a model repository.

    Args:
        name: The user's name for it, for messages.
        repository: `org/name`.

    Raises:
        ModelError: If the repository does not exist, or the token has no access.
        HubError: If the Hub cannot be reached or fails.
    """
    api = _api()
    refs = _named_errors(name, repository, None, lambda: api.list_repo_refs(repository))
    return [ref.name for ref in (*refs.branches, *refs.tags)]


@dataclass(frozen=True, slots=True)
class HubHead:
    """Newest commit of a model repository's branch, with the names of its files."""

    repository: str
    commit: str
    files: tuple[str, ...]


def hub_head(name: str) -> HubHead:
    """Return the newest commit of a model, `org/name` or `org/name@branch`, in one request.

    Raises:
        ModelError: If the repository or branch does not exist, or the token has no access.
        HubError: If the Hub cannot be reached or fails.
    """
    api = _api()
    repository, _, revision = name.partition("@")
    return _named_errors(
        name,
        repository,
        revision or None,
        lambda: _head(api.model_info(repository, revision=revision or None)),
    )


def hub_models(organisation: str) -> list[str]:
    """Return the names of the models of an organisation or user that have a configuration, without adapters.

    Raises:
        HubError: If the Hub cannot be reached or fails.
    """
    api = _api()

    def heads() -> list[HubHead]:
        found = api.list_models(author=organisation, expand=["sha", "siblings"])
        return [_head(info) for info in found]

    try:
        found = RETRIES.call("listing models", heads)
    except FAILURES as error:
        raise hub_error(organisation, "listing its models", error) from error
    return sorted(h.repository for h in found if {"config.json", "params.json"} & {*h.files})


def _head(info: ModelInfo) -> HubHead:
    if info.sha is None:
        raise OperationError(f"The Hub returned no commit for model '{info.id}'.")
    return HubHead(info.id, info.sha, tuple(file.rfilename for file in info.siblings or ()))


def _ask_commit(repository: str, revision: str | None) -> str:
    if constants.is_offline_mode():
        folder = snapshot_download(
            repository, revision=revision, local_files_only=True, allow_patterns=["config.json"]
        )
        return Path(folder).name
    return _head(_api().model_info(repository, revision=revision)).commit


def _api() -> HfApi:
    """Return a client of the Hub whose requests are bounded."""
    bound_requests()
    return HfApi(endpoint=endpoint())


def _who() -> str:
    return "the current token" if get_token() else "a user without a token"


def hub_file(repository: str, revision: str | None, file: str) -> Path | None:
    """Return a local copy of a file at a revision, or None if it does not exist.

    Raises:
        HubError: If the Hub cannot be reached or fails.
    """
    try:
        return Path(
            RETRIES.call(
                f"downloading '{file}'",
                lambda: hf_hub_download(
                    repository,
                    file,
                    revision=revision,
                    endpoint=endpoint(),
                    local_files_only=constants.is_offline_mode(),
                ),
            )
        )
    except FAILURES as error:
        offline = isinstance(error, LocalEntryNotFoundError) and constants.is_offline_mode()
        if offline or problem_of(error) is Problem.NO_FILE:
            return None
        raise hub_error(repository, f"downloading '{file}'", error) from error


def hub_error(repository: str, operation: str, error: Exception, problem: str = "") -> HubError:
    """Return the error to raise for a failed operation on a model repository; without a problem, a brief one."""
    return HubError(f"hf://{repository}", operation, problem or brief(error), is_transient(error))


# Code of models (`trust_remote_code`), pinned to commits: their `auto_map` may name other repositories on the Hub.

logger = logging.getLogger("regrade.plan")


def with_pinned_code(model: ResolvedModel, revision: str | None) -> ResolvedModel:
    """Return a model whose code is trusted, with the commits from which the code is read.

    vLLM reads code from the model's repository at the model's commit, but from another repository at the newest commit.

    Args:
        model: The model.
        revision: Branch, tag or commit of the repository with the model's code. None: the model's commit, or the newest
            commit of another repository.

    Raises:
        ModelError: If a repository, revision or file of code does not exist, or a model's code comes from several
            repositories on the Hub, for which vLLM takes one revision.
        HubError: If the Hub cannot be reached or fails.
    """
    on_hub = model.identity.kind == "hub"
    own = model.path if on_hub else ""
    code = {name or own: file for name, file in model.model_code.items()}
    if not on_hub:
        code.pop("", None)  # the folder's fingerprint covers its code
    if len(code) > 1:
        raise ModelError(
            model.path,
            f"its code comes from {' and '.join(sorted(code))}, and vLLM takes only one revision for both. Download the "
            "model and its code into a folder, and name the files there in its `auto_map`.",
        )
    commits: dict[str, str] = {}
    code_revision: str | None = None
    for name, file in code.items():
        at_model = name == own and revision is None
        commit = model.revision if at_model and model.revision else _commit(name, revision, file)
        if (name, commit) != (own, model.revision):
            commits[name] = commit
        code_revision = commit
    others = {name: file for name, file in model.tokenizer_code.items() if name not in ("", own)}
    commits |= _tokenizer_commits(model, others, commits)
    return replace(model, code_revision=code_revision, code_commits=commits)


def _tokenizer_commits(
    model: ResolvedModel, files: Mapping[str, str], known: Mapping[str, str]
) -> dict[str, str]:
    """Return the newest commit of each repository with code for the tokenizer, which vLLM cannot pin."""
    commits = {name: _commit(name, None, file) for name, file in files.items()}
    for name, commit in commits.items():
        if known.get(name, commit) != commit:
            raise ModelError(
                model.path,
                f"the code of its tokenizer is in '{name}' too, and vLLM reads that at the newest commit {commit[:12]} and "
                f"the model's at {known[name][:12]}. Leave out `code_revision`.",
            )
        logger.warning(
            "The code of the tokenizer of '%s' comes from '%s', which vLLM reads at its newest commit, now %s. To pin "
            "it, download the model and its code into a folder.",
            model.path,
            name,
            commit[:12],
        )
    return commits


def _commit(repository: str, revision: str | None, file: str) -> str:
    commit, path = first_file(repository, repository, revision, file)
    if path is None:
        raise ModelError(repository, f"it has no file '{file}' with the code of the model.")
    return commit
