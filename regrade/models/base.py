"""What is known of a model before it is loaded."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regrade.errors import ModelError
from regrade.specification import ModelIdentity


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model that exists, and what its files or its server say about it."""

    identity: ModelIdentity
    path: str
    """What the engine gets: a folder, the Hub id, or the name at the server."""
    revision: str | None = None
    """Commit on the Hub; None where there is none."""
    has_chat_template: bool | None = None
    """None: only the server knows."""
    max_position_embeddings: int | None = None
    """Context in tokens that the model (or the server) allows; None where neither says."""


def context_length(config: Mapping[str, Any]) -> int | None:
    """Return the number of positions that a `config.json` names, at the top or for its text model."""
    for part in (config, config.get("text_config") or {}):
        for name in ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length"):
            if isinstance(part.get(name), int):
                return int(part[name])
    return None


def has_chat_template(tokenizer_config: Mapping[str, Any], template_files: bool) -> bool:
    """Return whether a tokenizer brings a chat template, in its configuration or as a file."""
    return template_files or bool(tokenizer_config.get("chat_template"))


def read_json(path: Path, model: str) -> dict[str, Any]:
    """Return the object in a JSON file of a model.

    Raises:
        ModelError: If it is not one.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(model, f"'{path.name}' cannot be read as JSON: {error}") from error
    if not isinstance(content, dict):
        raise ModelError(model, f"'{path.name}' holds no JSON object.")
    return content
