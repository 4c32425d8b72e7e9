"""The command line as a person runs it: a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"
DEMO = ROOT / "infra" / "demo"


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


def regrade(*arguments: str | Path, timeout: float = 280, **environment: str) -> Ran:
    """Run `regrade` in the repository's root."""
    return run(
        [sys.executable, "-m", "regrade.cli.main", *map(str, arguments)], timeout, environment
    )


def run(
    command: Sequence[str], timeout: float, environment: dict[str, str], cwd: Path = ROOT
) -> Ran:
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)
