"""Three-way merge of a deployment's settings: prefect.yaml, the server, and the last deployment.

A value on the server that differs from the last deployment was set by a person: it stays, and is reported. None stands
for a setting that is not set.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Settings = Mapping[str, Any]
"""JSON values by name, such as `parameters.limit` or `schedule nightly`."""


@dataclass
class Merged:
    """Result of a merge."""

    result: dict[str, Any] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    """Names of the settings to update on the server."""
    kept: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    """Settings that a person changed and that stay: name -> (server's value, prefect.yaml's value)."""
    remember: dict[str, str] = field(default_factory=dict)
    """Fingerprints of the deployed values, for the next merge."""


def merge(
    desired: Settings, server: Settings, deployed: Mapping[str, str], *, force: bool = False
) -> Merged:
    """Merge the settings of one deployment.

    Args:
        desired: Settings in prefect.yaml.
        server: Settings on the server; empty for a new deployment.
        deployed: `Merged.remember` of the last deployment.
        force: Take prefect.yaml's value also if a person changed it.
    """
    merged = Merged()
    for name in sorted({*desired, *server, *deployed}):
        want, has = desired.get(name), server.get(name)
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
    """Return a short hash of a value, or None for None; hashes keep no second copy of a setting."""
    if value is None:
        return None
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
