"""What a deployment does with a setting that may have been changed on the server by hand.

Three values decide: what prefect.yaml wants, what the server has, and what was deployed last. What the server has
and nobody deployed was made by a person: it stays, and is named. `None` stands for a setting that is not there.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Settings = Mapping[str, Any]
"""Values that JSON knows, by their names, such as `parameters.limit` or `schedule nightly`."""


@dataclass
class Merged:
    """The settings as they are to be, and what that means."""

    result: dict[str, Any] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    """Names of the settings that the server does not have like this yet."""
    kept: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    """What a person changed and stays, by name: the server's value, prefect.yaml's value."""
    remember: dict[str, str] = field(default_factory=dict)
    """Fingerprints of what was deployed, for the next time."""


def merge(
    wanted: Settings, there: Settings, deployed: Mapping[str, str], *, force: bool = False
) -> Merged:
    """Return what to make of the settings of one deployment.

    Args:
        wanted: What prefect.yaml says.
        there: What the server has; empty for a new deployment.
        deployed: `Merged.remember` of the last time.
        force: Set what prefect.yaml says, whoever changed what.
    """
    merged = Merged()
    for name in sorted({*wanted, *there, *deployed}):
        want, has = wanted.get(name), there.get(name)
        by_hand = want != has and fingerprint(has) != deployed.get(name) and not force
        value = has if by_hand else want
        if value is not None:
            merged.result[name] = value
        if by_hand:
            merged.kept[name] = (has, want)
        elif want != has:
            merged.changed.append(name)
        last = deployed.get(name) if by_hand and name in deployed else fingerprint(want)
        if last is not None:
            merged.remember[name] = last
    return merged


def fingerprint(value: Any) -> str | None:  # noqa: ANN401 - any JSON
    """Return a short hash, so that no value is kept in a second place; None of None."""
    if value is None:
        return None
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
