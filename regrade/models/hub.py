"""Models on the Hugging Face Hub: their commit, and properties from their small files."""

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
from regrade.models.base import (
    ResolvedModel,
    context_length,
    has_chat_template,
    read_json,
    stored_dtype,
)
from regrade.retries import is_transient
from regrade.specification import ModelIdentity

_TEMPLATE_FILES = ("chat_template.jinja", "chat_template.json")


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
    commit = _commit(name, repository, revision or None)
    # By branch or tag, so that the cache stores its commit for offline use.
    config = _file(repository, revision or None, "config.json")
    if config is not None and config.parent.name != commit:
        commit = config.parent.name  # the branch moved meanwhile
    if config is None:
        raise ModelError(name, "it has no 'config.json' on the Hub, so vLLM cannot load it.")
    tokenizer_config = _file(repository, commit, "tokenizer_config.json")
    templates = [_file(repository, commit, file) for file in _TEMPLATE_FILES]
    content = read_json(config, name)
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
        max_position_embeddings=context_length(content),
        dtype=stored_dtype(content),
    )


def _endpoint() -> str | None:
    return os.environ.get("HF_ENDPOINT") or None


def _commit(name: str, repository: str, revision: str | None) -> str:
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
        raise ModelError(name, f"not a folder, and not a valid name on the Hub: {error}") from error
    except GatedRepoError as error:
        raise ModelError(
            name, f"it is gated, and {_who()} has no access yet. Ask for access on its page."
        ) from error
    except RevisionNotFoundError as error:
        raise ModelError(name, f"it has no revision '{revision}' on the Hub.") from error
    except RepositoryNotFoundError as error:
        raise ModelError(
            name,
            f"not a folder, and not a model on the Hub that {_who()} can see. Check the name; set HF_TOKEN if it is "
            "private.",
        ) from error
    except LocalEntryNotFoundError as error:
        raise ModelError(
            name,
            "not a folder, and not in the local Hub cache. Unset HF_HUB_OFFLINE to download it.",
        ) from error
    except (HfHubHTTPError, httpx2.HTTPError, OSError) as error:
        problem = (
            f"no commit from {_endpoint() or constants.ENDPOINT}: {error}. "
            "To work without the Hub, name a folder, or set HF_HUB_OFFLINE=1 for a cached model."
        )
        raise _hub_error(repository, "asking for its commit", problem, error) from error
    if commit is None:
        raise OperationError(f"The Hub returned no commit for model '{name}'.")
    return commit


def _who() -> str:
    return "the current token" if get_token() else "a user without a token"


def _file(repository: str, revision: str | None, file: str) -> Path | None:
    """Return a local copy of a file at a revision, or None if it does not exist."""
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
