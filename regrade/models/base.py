"""Properties of a model that are known before it is loaded."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regrade.errors import ModelError
from regrade.models.chat_template import ChatTemplate
from regrade.specification import ModelIdentity


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """An existing model, with properties read from its files or its server."""

    identity: ModelIdentity
    path: str
    """Name for the engine: a folder, a Hub id, or a name on the server."""
    revision: str | None = None
    """Commit on the Hub; None for other models."""
    answers_chats: bool | None = None
    """False without a chat template; None if only the server knows."""
    chat_template: ChatTemplate | None = None
    """None if there is none, if vLLM renders chats in code, or if only the server knows."""
    generation_config: Mapping[str, Any] | None = None
    """Content of `generation_config.json`; None without one."""
    max_position_embeddings: int | None = None
    """Context length in tokens of the model (or the server); None if unknown."""
    dtype: str | None = None
    """Precision of the weights that the checkpoint states, such as `bfloat16`; None if unknown."""


def context_length(config: Mapping[str, Any]) -> int | None:
    """Return the context length in a `config.json`, at the top level or in `text_config`."""
    for part in (config, config.get("text_config") or {}):
        for name in ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length"):
            if isinstance(part.get(name), int):
                return int(part[name])
    return None


def stored_dtype(config: Mapping[str, Any]) -> str | None:
    """Return the precision of the weights in a `config.json`, at the top level or in `text_config`."""
    for part in (config, config.get("text_config") or {}):
        for name in ("dtype", "torch_dtype"):
            if isinstance(part.get(name), str):
                return str(part[name]).removeprefix("torch.")
    return None


def read_json(path: Path, model: str) -> dict[str, Any]:
    """Return the object in a JSON file of a model.

    Raises:
        ModelError: If the file is not a JSON object.
    """
    try:
        content = json.loads(read_text(path, model))
    except ValueError as error:
        raise ModelError(model, f"'{path.name}' cannot be read as JSON: {error}") from error
    if not isinstance(content, dict):
        raise ModelError(
            model, f"'{path.name}' should be a JSON object, found {type(content).__name__}."
        )
    return content


def read_text(path: Path, model: str) -> str:
    """Return the text of a file of a model.

    Raises:
        ModelError: If the file cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(model, f"'{path.name}' cannot be read: {error}") from error
