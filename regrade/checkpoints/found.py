"""The newest revision of a model, on the Hub or in a folder, complete or not."""

import hashlib
import math
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

from regrade.models import local
from regrade.models.hub import HubHead, hub_head
from regrade.records.specification import CHECKPOINT

_LONGEST = 63
"""Longest name of an alias, in characters."""
_DIGITS = 8
"""Hex digits that replace the end of a name that is too long."""


@dataclass(frozen=True, slots=True)
class Found:
    """The newest revision of a model, or a checkpoint of a training."""

    name: str
    """Model or training: a Hub id, or the name of a folder."""
    model: str
    """Model to evaluate, with its commit if it is on the Hub."""
    revision: str
    """Commit, or hash of the names, sizes and times of the files in a folder that decide the answers; their content is not read."""
    waits_for: str | None = None
    """The missing part; None if the revision is complete."""
    age: float = field(default=math.inf, compare=False)
    """Seconds since the last change of a folder."""


def on_hub(name: str) -> Found:
    """Return the newest revision of `org/name` or `org/name@branch`.

    Raises:
        ModelError: If a model or branch on the Hub does not exist, or the token has no access.
        HubError: If the Hub cannot be reached or fails.
    """
    head = hub_head(name)
    model = f"{head.repository}@{head.commit}"
    return Found(head.repository, model, head.commit, _missing(head))


def in_folder(folder: Path, settle: float) -> Found:
    """Return the revision of a model in a folder, which counts as written after `settle` seconds without a change."""
    path = folder.resolve()
    name = path.parent.name if CHECKPOINT.fullmatch(path.name) else local.folder_name(path)
    states = local.file_states(path)
    age = time.time() - max((time_ns for _, time_ns in states.values()), default=0) / 1e9
    waits_for = (
        local.find_missing(path) if path.is_dir() else "the folder does not exist (any more)"
    )
    if waits_for is None and age < settle:
        waits_for = (
            f"it changed {max(age, 0):.0f} s ago; it is left for {settle:g} s without a change"
        )
    digest = hashlib.sha256()
    for file in sorted(local.model_files(path)):
        size, time_ns = states.get(str(file), (0, 0))  # of one that came meanwhile
        digest.update(f"{file.relative_to(path)}\0{size}\0{time_ns}\n".encode())
    return Found(name, str(path), digest.hexdigest(), waits_for, age)


def alias_of(template: str, name: str) -> str:
    """Return the name of an alias: `{model}` in the template is replaced by the model's name.

    Letters become lower-case, other characters `-`. A name that is too long ends in a hash.
    """
    if "{model}" not in template:
        return template
    slug = re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-")
    alias = template.replace("{model}", slug)
    if len(alias) <= _LONGEST:
        return alias
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]
    return f"{alias[: _LONGEST - _DIGITS - 1]}-{digest}"


def _missing(head: HubHead) -> str | None:
    """Return the missing part of a model that is uploaded in several commits, or None."""
    if not {"config.json", "params.json"} & {*head.files}:
        return "it has no 'config.json' (yet)"
    if not local.weights_among(map(Path, head.files)):
        return "it has no weights (yet)"
    parts = local.missing_parts(head.files)
    return f"{len(parts)} of its weight files are missing, such as '{parts[0]}'" if parts else None
