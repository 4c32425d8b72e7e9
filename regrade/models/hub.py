"""Models on the Hugging Face Hub: which commit, and what its small files say."""

import os
from pathlib import Path

import httpx2
from huggingface_hub import HfApi, constants, get_token, hf_hub_download, snapshot_download
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from regrade.errors import HubError, ModelError, OperationError
from regrade.models.base import ResolvedModel, context_length, has_chat_template, read_json
from regrade.retries import is_transient
from regrade.specification import ModelIdentity

_TEMPLATE_FILES = ("chat_template.jinja", "chat_template.json")


def resolve_on_hub(name: str, quantization: str | None) -> ResolvedModel:
    """Return the model at the commit that a branch, a tag or nothing names now.

    Args:
        name: `org/name`, or `org/name@revision`.
        quantization: Asked for on top of the checkpoint.

    Raises:
        ModelError: If there is no such model for this token, or no such revision.
        HubError: If the Hub cannot be reached or fails.
    """
    repository, _, revision = name.partition("@")
    commit = _commit(name, repository, revision or None)
    # By the name of the revision, so that the cache knows next time, offline, which commit it names.
    config = _file(repository, revision or None, "config.json")
    if config is not None and config.parent.name != commit:
        commit = config.parent.name  # it moved in this very moment
    if config is None:
        raise ModelError(
            name, "has no 'config.json' on the Hub: it is not a model that vLLM can load."
        )
    tokenizer_config = _file(repository, commit, "tokenizer_config.json")
    templates = [_file(repository, commit, file) for file in _TEMPLATE_FILES]
    return ResolvedModel(
        identity=ModelIdentity(
            name=repository, kind="hub", revision=commit, quantization=quantization
        ),
        path=repository,
        revision=commit,
        has_chat_template=has_chat_template(
            read_json(tokenizer_config, name) if tokenizer_config is not None else {},
            any(template is not None for template in templates),
        ),
        max_position_embeddings=context_length(read_json(config, name)),
    )


def _endpoint() -> str | None:
    return os.environ.get("HF_ENDPOINT") or None


def _commit(name: str, repository: str, revision: str | None) -> str:
    unknown = f"neither a folder nor a model on the Hub that {_who()} can see."
    try:
        if constants.is_offline_mode():
            folder = snapshot_download(
                repository,
                revision=revision,
                local_files_only=True,
                allow_patterns=["config.json"],
            )
            return Path(folder).name
        commit = HfApi(endpoint=_endpoint()).model_info(repository, revision=revision).sha
    except HFValidationError as error:
        raise ModelError(name, f"neither a folder nor a name on the Hub: {error}") from error
    except GatedRepoError as error:
        raise ModelError(
            name, f"is gated: ask for access on its page; {_who()} has none yet."
        ) from error
    except RevisionNotFoundError as error:
        raise ModelError(name, f"the Hub has no revision '{revision}' of it.") from error
    except RepositoryNotFoundError as error:
        raise ModelError(
            name, f"{unknown} Check the name; set HF_TOKEN if it is private."
        ) from error
    except LocalEntryNotFoundError as error:
        raise ModelError(
            name, "neither a folder nor in the Hub's cache here, and HF_HUB_OFFLINE forbids to ask."
        ) from error
    except (HfHubHTTPError, httpx2.HTTPError, OSError) as error:
        problem = (
            f"no commit from {_endpoint() or constants.ENDPOINT}: {error}. "
            "A folder, or HF_HUB_OFFLINE=1 with a model that is in the cache, needs no Hub."
        )
        raise _hub_error(repository, "asking for its commit", problem, error) from error
    if commit is None:
        raise OperationError(f"The Hub names no commit for model '{name}'.")
    return commit


def _who() -> str:
    return "the token in use" if get_token() else "someone without a token"


def _file(repository: str, revision: str | None, file: str) -> Path | None:
    """Return a local copy of a file at a revision, or None if it has none."""
    try:
        return Path(
            hf_hub_download(
                repository,
                file,
                revision=revision,
                endpoint=_endpoint(),
                local_files_only=constants.is_offline_mode(),
            )
        )
    except LocalEntryNotFoundError as error:
        if constants.is_offline_mode():
            return None
        raise _hub_error(repository, f"downloading '{file}'", str(error), error) from error
    except EntryNotFoundError:
        return None
    except (HfHubHTTPError, httpx2.HTTPError, OSError) as error:
        raise _hub_error(repository, f"downloading '{file}'", str(error), error) from error


def _hub_error(repository: str, operation: str, problem: str, error: Exception) -> HubError:
    return HubError(f"hf://{repository}", operation, problem, is_transient(error))
