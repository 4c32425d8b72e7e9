"""Files of a resolved model that describe its weights, without the weights."""

from pathlib import Path
from typing import Any

from regrade.models.base import ResolvedModel, read_json
from regrade.models.hub import hub_file
from regrade.models.local import weight_files_bytes
from regrade.settings.errors import ModelError

_INDEX = "model.safetensors.index.json"


def config_of(model: ResolvedModel) -> dict[str, Any]:
    """Return the content of a model's `config.json`.

    Raises:
        ModelError: If it has none, like models in Mistral's own format.
        HubError: If the Hub cannot be reached or fails.
    """
    path = _file(model, "config.json")
    if path is None:
        raise ModelError(model.identity.name, "it has no 'config.json'.")
    return read_json(path, model.identity.name)


def weights_size(model: ResolvedModel) -> int | None:
    """Return the bytes of a model's weights, from its files or their index; None if neither has the size."""
    if model.revision is None and (size := weight_files_bytes(Path(model.path))) is not None:
        return size
    index = _file(model, _INDEX)
    if index is None:
        return None
    total = (read_json(index, model.identity.name).get("metadata") or {}).get("total_size")
    return int(total) if isinstance(total, int | float) and total > 0 else None


def _file(model: ResolvedModel, name: str) -> Path | None:
    if model.revision is not None:
        return hub_file(model.path, model.revision, name)
    path = Path(model.path) / name
    return path if path.is_file() else None
