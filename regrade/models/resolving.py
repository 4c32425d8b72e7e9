"""Resolve a model name to a model on this machine or on the Hub."""

from regrade.models.base import ResolvedModel
from regrade.models.local import resolve_folder
from regrade.settings.errors import ModelError
from regrade.settings.files import at_home


def resolve_here(
    name: str,
    *,
    quantization: str | None = None,
    needs_weights: bool = True,
    needs_tokenizer: bool = True,
    reads_weights: bool = True,
) -> ResolvedModel:
    """Return the model with a name, to be loaded on this machine.

    Args:
        name: A folder, or a Hub id (`org/name`, or `org/name@revision`).
        quantization: Quantization to apply to the checkpoint.
        needs_weights: Refuse a folder without weights.
        needs_tokenizer: Refuse a folder without tokenizer.
        reads_weights: Include a folder's weights in its revision.

    Raises:
        ModelError: If the model does not exist or is incomplete.
        OperationError: If the Hub cannot be reached.
    """
    if not name.strip():
        raise ModelError(
            name, "the name is empty. Name a folder, or a Hub id such as 'Qwen/Qwen3-0.6B'."
        )
    folder = at_home(name)
    if folder.is_dir():
        return resolve_folder(
            folder,
            quantization,
            needs_weights=needs_weights,
            needs_tokenizer=needs_tokenizer,
            reads_weights=reads_weights,
        )
    if folder.is_file():
        raise ModelError(
            name, "it is a file. Name the folder with config.json, weights and tokenizer."
        )
    if is_folder(name):
        raise ModelError(name, f"there is no folder '{folder}'.")
    from regrade.models.hub import resolve_on_hub  # noqa: PLC0415 - slow: a folder is not on the Hub

    return resolve_on_hub(name, quantization)


def is_folder(name: str) -> bool:
    """Return True if a name means a folder, which need not exist, instead of a model on the Hub."""
    return (
        at_home(name).exists()
        or name.startswith((".", "/", "~"))
        or name.count("/") > 1
        or not name.strip()
    )
