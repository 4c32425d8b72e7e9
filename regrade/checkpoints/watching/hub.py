"""Newest commits of models on the Hub."""

from collections.abc import Iterator
from fnmatch import fnmatch

from regrade.checkpoints.watching.found import Found
from regrade.models.hub import HubHead, hub_head, hub_heads
from regrade.models.local import missing_parts

_CONFIGS = ("config.json", "params.json")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".gguf")


def on_hub(name: str) -> Found:
    """Return the newest commit of a model, `org/name` or `org/name@branch`.

    Raises:
        ModelError: If the model or branch does not exist, or the token has no access.
        HubError: If the Hub cannot be reached or fails.
    """
    return _found(hub_head(name))


def of_organisation(organisation: str, pattern: str) -> Iterator[Found]:
    """Yield the newest commit of every model of an organisation or user that vLLM may load, in the order of their names.

    Args:
        organisation: Name of the organisation or user.
        pattern: Pattern of the models' names without the organisation, such as `*-instruct`.

    Raises:
        HubError: If the Hub cannot be reached or fails.
    """
    for head in sorted(hub_heads(organisation), key=lambda head: head.repository):
        is_model = any(config in head.files for config in _CONFIGS)
        if is_model and fnmatch(head.repository.partition("/")[2], pattern):
            yield _found(head)


def _found(head: HubHead) -> Found:
    model = f"{head.repository}@{head.commit}"
    return Found(head.repository, model, head.commit, _missing(head))


def _missing(head: HubHead) -> str | None:
    """Return the missing part of a model that is uploaded in several commits, or None."""
    if not any(config in head.files for config in _CONFIGS):
        return "it has no 'config.json' (yet)"
    if not any(file.endswith(_WEIGHTS) for file in head.files):
        return "it has no weights (yet)"
    parts = missing_parts(head.files)
    return f"{len(parts)} of its weight files are missing, such as '{parts[0]}'" if parts else None
