"""A revision of a watched model, and the alias of its last good one."""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regrade.settings.errors import SettingsError

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
    """Commit, or hash of the sizes and times of a folder's files; "" if it is not complete."""
    waits_for: str | None = None
    """The missing part; None if the revision is complete."""
    age: float = math.inf
    """Seconds since the last change of a folder that is not complete, or not yet counts as written."""

    @property
    def title(self) -> str:
        """Name without the revision: the model's, or that of the training and the checkpoint."""
        part = Path(self.model).name
        return self.name if "@" in self.model or part == self.name else f"{self.name}/{part}"

    @property
    def short(self) -> str:
        """Name of the revision for people."""
        return self.model if "@" not in self.model else f"{self.name}@{self.revision[:12]}"


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


def check_aliases(template: str, found: Sequence[Found]) -> None:
    """Refuse two models with the same alias, because each would be compared with the other's revisions.

    Raises:
        SettingsError: If two models have the same alias.
    """
    if "{model}" not in template:
        return
    names = sorted({revision.name for revision in found})
    counts = Counter(alias_of(template, name) for name in names)
    for alias, count in counts.items():
        if count > 1:
            same = [name for name in names if alias_of(template, name) == alias]
            raise SettingsError(
                f"{' and '.join(map(repr, same))} have the same alias '{alias}': watch them in two deployments, with "
                "other texts around `{model}` in `gate.baseline`."
            )
