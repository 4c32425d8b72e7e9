"""From the name that a person gives to one exact model."""

from pathlib import Path

from regrade.errors import ModelError
from regrade.models.base import ResolvedModel
from regrade.models.hub import resolve_on_hub
from regrade.models.local import resolve_folder
from regrade.models.served import resolve_served
from regrade.settings import EngineSettings, OpenAIEngine, VllmEngine

__all__ = ["ResolvedModel", "resolve_model"]


def resolve_model(name: str, engine: EngineSettings) -> ResolvedModel:
    """Return the model that a name means for an engine.

    Args:
        name: For vLLM a folder or a Hub id (`org/name`, or `org/name@revision`); for a server, its name there.
        engine: Decides where to look.

    Raises:
        ModelError: If there is no such model, or it is not whole.
        SettingsError: If the server cannot be reached or refuses our key.
        OperationError: If the Hub cannot be reached.
    """
    if not name.strip():
        raise ModelError(
            name, "the name is empty. Give a folder, or a Hub id such as 'Qwen/Qwen3-0.6B'."
        )
    if isinstance(engine, OpenAIEngine):
        return resolve_served(name, engine)
    folder = Path(name).expanduser()
    if folder.is_dir():
        return resolve_folder(folder, engine.quantization, needs_weights=_needs_weights(engine))
    if folder.is_file():
        raise ModelError(
            name, "is a file. Give the folder with config.json, weights and tokenizer."
        )
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise ModelError(name, f"there is no folder '{folder}'.")
    return resolve_on_hub(name, engine.quantization)


def _needs_weights(engine: VllmEngine) -> bool:
    """Return whether vLLM reads weights in one of the usual files (`load_format=dummy` does not)."""
    formats = [
        value
        for key, _, value in (pair.partition("=") for pair in engine.extra)
        if key == "load_format"
    ]
    return not formats or formats[-1] in ("auto", "hf", "safetensors", "pt")
