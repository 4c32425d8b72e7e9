"""Files of a model in a folder or on the Hub: their place, their sha256, and what two models do not share beside their weights."""

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from huggingface_hub import constants, snapshot_download
from huggingface_hub.errors import LocalEntryNotFoundError

from regrade.hub.client import bound_requests
from regrade.hub.retries import FAILURES
from regrade.models.base import ResolvedModel
from regrade.models.fingerprints import cached_sha256
from regrade.models.hub import RETRIES, endpoint, hub_error, hub_head
from regrade.models.local import is_setting, model_files, weight_files, weights_among

_CONFIGURATIONS = ("config.json", "params.json")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_OF_THE_WRITER = frozenset(
    {"_from_model_config", "_name_or_path", "name_or_path", "transformers_version"}
)
"""Keys by which the program that wrote a file of settings is known; they change nothing."""


def files_folder(model: ResolvedModel, *, download: bool, weights: bool = True) -> Path | None:
    """Return the folder with the files of a model.

    Args:
        model: A model in a folder or on the Hub.
        download: Download what is missing of a model on the Hub. Otherwise: the cache of this machine, as it is.
        weights: Download its weights, too.

    Returns:
        The folder; None if nothing of the model is in the cache.

    Raises:
        HubError: If the Hub cannot be reached or fails.
    """
    if model.identity.kind != "hub":
        return Path(model.path)
    bound_requests()
    offline = not download or constants.is_offline_mode()
    try:
        name = f"{model.path}@{model.revision}"
        # Of a snapshot without what nobody asked for, such as README.md, the Hub's client says that it is not there.
        wanted = [*_CONFIGURATIONS] if offline else _wanted(name, weights=weights)
        folder = RETRIES.call(
            "downloading a model",
            lambda: snapshot_download(
                model.path,
                revision=model.revision,
                endpoint=endpoint(),
                allow_patterns=wanted,
                local_files_only=offline,
            ),
        )
    except LocalEntryNotFoundError:
        return None
    except FAILURES as error:
        raise hub_error(model.path, "downloading it", error) from error
    return Path(folder)


def _wanted(name: str, *, weights: bool) -> list[str]:
    """Return the names of a model's files that decide its answers, with or without its weights."""
    names = [file for file in hub_head(name).files if "/" not in file]
    heavy = weights_among(Path(file) for file in names) if weights else []
    return [*(file for file in names if is_setting(file)), *(path.name for path in heavy)]


def weights_sha256(folder: Path) -> dict[str, str]:
    """Return the sha256 of each file of weights in a folder, by its name; of the Hub's cache, as the Hub states it."""
    found = {}
    for path in weight_files(folder):
        stated = path.resolve().name if path.is_symlink() else ""
        found[path.name] = stated if _SHA256.fullmatch(stated) else cached_sha256(path)
    return found


def settings_digests(folder: Path) -> dict[str, str]:
    """Return a digest of each file that decides a model's answers beside its weights, by its name.

    These are configuration, tokenizer, chat template, quantisation and code. The keys by which the program that wrote a file is
    known do not count, nor does the layout of JSON.
    """
    files = {p.relative_to(folder).as_posix(): p for p in model_files(folder, weights=False)}
    return {name: _digest(p) for name, p in files.items() if not name.endswith(".index.json")}


def settings_difference(one: Mapping[str, str], other: Mapping[str, str]) -> str | None:
    """Name a file in which two models differ, other than their weights; None if there is none.

    Args:
        one: Digests of a model's files (`settings_digests`).
        other: Those of the other model.
    """
    for name in sorted(one.keys() | other.keys()):
        if name not in other or name not in one:
            return f"only one of the two has '{name}'"
        if one[name] != other[name]:
            return f"'{name}' is another one"
    return None


def configuration(folder: Path) -> dict[str, Any]:
    """Return the content of `config.json`, without the keys of the program that wrote it; {} if there is none."""
    path = folder / "config.json"
    return dict(_content(path)) if path.is_file() else {}


def _digest(path: Path) -> str:
    content = path.read_bytes()
    if path.suffix == ".json":
        with suppress(ValueError, RecursionError):  # no JSON: the loader may not need it
            content = json.dumps(_content(path), sort_keys=True).encode()
    return hashlib.sha256(content).hexdigest()


def _content(path: Path) -> Mapping[str, Any]:
    content = json.loads(path.read_bytes())
    if not isinstance(content, dict):
        return {"": content}
    return {name: value for name, value in content.items() if name not in _OF_THE_WRITER}
