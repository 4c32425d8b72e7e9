"""Three-way merge of a deployment's settings: prefect.yaml, the server, and the last deployment.

A value on the server that differs from the last deployment was set by hand: it is kept and reported. None means that a
setting is not set.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

# Outcome of `regrade deploy` for an object on the server.


@dataclass(frozen=True)
class Kept:
    """A setting that was changed by hand on the server and is kept; JSON values, None if not set."""

    server: Any
    project: Any
    """Value in prefect.yaml."""


State = Literal["created", "updated", "unchanged"]


@dataclass(frozen=True)
class Outcome:
    """A work pool, deployment, automation or scorer after `regrade deploy`."""

    kind: Literal["pool", "deployment", "automation", "scorer"]
    name: str
    state: State
    note: str = ""
    changed: list[str] = field(default_factory=list)
    """Settings that were updated."""
    kept: dict[str, Kept] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Lines for a terminal: the state, then a line for each kept setting."""
        subject = f"{self.kind} {self.name}"
        first = " ".join([f"{subject}: {self.state}", ", ".join(self.changed)]).rstrip()
        return [
            f"{first}. {self.note}" if self.note else first,
            *(
                f"{subject}: {name} was changed on the server and stays {_short(kept.server)}; "
                f"prefect.yaml says {_short(kept.project)} (`--force` sets it)"
                for name, kept in self.kept.items()
            ),
        ]


def _short(value: Any) -> str:  # noqa: ANN401 - any JSON
    if value is None:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]} ..."


Settings = Mapping[str, Any]
"""JSON values by name, such as `parameters.limit` or `schedule nightly`."""


@dataclass
class Merged:
    """Result of a merge."""

    result: dict[str, Any] = field(default_factory=dict)
    """Settings that are set after the merge."""
    changed: list[str] = field(default_factory=list)
    """Names of the settings to update on the server."""
    kept: dict[str, Kept] = field(default_factory=dict)
    """Settings that were changed by hand, by name."""
    remember: dict[str, str] = field(default_factory=dict)
    """Fingerprints of the deployed values, for the next merge."""

    def changes(self, prefix: str) -> Iterator[tuple[str, Any]]:
        """Yield the changed settings whose name begins with a prefix: the rest of the name, and the value or None."""
        for name in self.changed:
            if name.startswith(prefix):
                yield name.removeprefix(prefix), self.result.get(name)


def merge(
    desired: Settings, server: Settings, deployed: Mapping[str, str], *, force: bool = False
) -> Merged:
    """Merge the settings of one deployment.

    Args:
        desired: Settings in prefect.yaml.
        server: Settings on the server; empty for a new deployment.
        deployed: `Merged.remember` of the last deployment.
        force: Take the value in prefect.yaml even if it was changed by hand.
    """
    merged = Merged()
    for name in sorted({*desired, *server, *deployed}):
        want, has = desired.get(name), server.get(name)
        by_hand = want != has and fingerprint(has) != deployed.get(name) and not force
        value = has if by_hand else want
        if value is not None:
            merged.result[name] = value
        if by_hand:
            merged.kept[name] = Kept(has, want)
        elif want != has:
            merged.changed.append(name)
        last = deployed.get(name) if by_hand and name in deployed else fingerprint(want)
        if last is not None:
            merged.remember[name] = last
    return merged


def fingerprint(value: Any) -> str | None:  # noqa: ANN401 - any JSON
    """Return a short hash of a value, or None for None; a hash stores no second copy of a setting."""
    if value is None:
        return None
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
