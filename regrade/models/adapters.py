"""LoRA adapters of the PEFT library: in a folder, or on the Hub. vLLM applies them to the model without merging."""

import logging
from dataclasses import replace
from pathlib import Path

from regrade.models.base import ADAPTER_CONFIG, ResolvedModel, read_json
from regrade.models.hub import first_file, hub_file
from regrade.models.local import folder_name, revision_of
from regrade.records.specification import AdapterIdentity
from regrade.settings.errors import AdapterError, ModelError
from regrade.settings.files import at_home, file_sha256

logger = logging.getLogger("regrade.plan")

_WEIGHTS = "adapter_model.safetensors"
"""File of weights. Older files (`adapter_model.bin`) are pickles, whose tensor names are unknown before loading."""
_TEMPLATE = "chat_template.jinja"
_EXPECTED = f"Expected what PEFT's `save_pretrained` writes: {ADAPTER_CONFIG} and {_WEIGHTS}."


def with_adapter(model: ResolvedModel, name: str) -> ResolvedModel:
    """Return a model with a LoRA adapter as a part of its identity and name.

    vLLM itself refuses adapters that it cannot apply, before it reads the model's weights.

    Args:
        model: The base model.
        name: A folder, or a Hub id (`org/name`, or `org/name@revision`).

    Raises:
        AdapterError: If the adapter does not exist, is incomplete, or is no LoRA adapter.
        OperationError: If the Hub cannot be reached.
    """
    path = at_home(name)
    try:
        if path.is_dir():
            identity, folder = _in_folder(name, path)
        elif name.startswith((".", "/", "~")) or name.count("/") != 1:
            raise ModelError(name, f"there is no folder '{path}'.")
        else:
            identity, folder = _on_hub(name)
        config = read_json(folder / ADAPTER_CONFIG, name)
        kind = config.get("peft_type")
        if kind != "LORA":
            raise ModelError(
                name, f"'{ADAPTER_CONFIG}' has peft_type {kind!r}; vLLM applies only 'LORA'."
            )
    except ModelError as error:
        raise AdapterError(name, error.problem) from error
    base = config.get("base_model_name_or_path")
    if isinstance(base, str) and base and Path(base).name != Path(model.path).name:
        logger.warning(
            "Adapter '%s' was trained on '%s', but is applied to '%s'.", name, base, model.path
        )
    _warn_of_template(name, folder, model)
    joined = f"{model.identity.name}+{identity.name}"
    return replace(
        model,
        identity=model.identity.model_copy(update={"name": joined, "adapter": identity}),
        adapter=str(folder.resolve()),
    )


def _in_folder(name: str, folder: Path) -> tuple[AdapterIdentity, Path]:
    files = [folder / ADAPTER_CONFIG, folder / _WEIGHTS]
    for file in files:
        if not file.is_file():
            raise ModelError(name, f"the folder has no '{file.name}'. {_EXPECTED}")
    return AdapterIdentity(name=folder_name(folder), revision=revision_of(folder, files)), folder


def _on_hub(name: str) -> tuple[AdapterIdentity, Path]:
    """Download the adapter at a commit, and return it; vLLM would read the newest commit."""
    repository, _, revision = name.partition("@")
    commit, config = first_file(name, repository, revision or None, ADAPTER_CONFIG)
    if config is None:
        raise ModelError(name, f"it has no '{ADAPTER_CONFIG}' on the Hub. {_EXPECTED}")
    if hub_file(repository, commit, _WEIGHTS) is None:
        raise ModelError(name, f"it has no '{_WEIGHTS}' on the Hub. {_EXPECTED}")
    hub_file(repository, commit, _TEMPLATE)
    return AdapterIdentity(name=repository, revision=commit), config.parent


def _warn_of_template(name: str, folder: Path, model: ResolvedModel) -> None:
    """Warn of a chat template in the adapter's folder: vLLM uses the tokenizer and template of the base model."""
    template, of_base = folder / _TEMPLATE, Path(model.path) / _TEMPLATE
    if not template.is_file():
        return
    if of_base.is_file() and file_sha256(of_base) == file_sha256(template):
        return
    logger.warning(
        "Adapter '%s' has its own chat template, but the base model's is used. To use the adapter's: "
        "`--chat-template %s`.",
        name,
        template,
    )
