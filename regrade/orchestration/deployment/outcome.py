"""Outcome of `regrade deploy` for an object on the server."""

import json
from dataclasses import dataclass, field
from typing import Any, Literal


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
