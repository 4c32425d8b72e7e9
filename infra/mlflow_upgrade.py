"""Upgrade an SQLite database of MLflow to the installed version, after a copy: `python -m infra.mlflow_upgrade URI`.

`make ui` runs this before the server, which refuses a database of an older MLflow.
"""

import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from regrade.answers.ownership import owned

SCHEME = "sqlite:///"
LOCK_SECONDS = 300
"""Longest wait for an evaluation that writes its results."""


def main(arguments: Sequence[str]) -> int:
    """Return the exit code: 0 if the database has the schema of the installed MLflow, or is none of SQLite."""
    (uri,) = arguments
    path = Path(uri.removeprefix(SCHEME))
    if not uri.startswith(SCHEME) or not path.exists():
        return 0
    with owned(path, LOCK_SECONDS):
        return _upgrade(uri, path)


def _upgrade(uri: str, path: Path) -> int:
    before = _revision(path)
    if before is None:
        return 0
    copy = path.with_name(f"{path.name}.before-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    command = [sys.executable, "-m", "mlflow", "db", "upgrade", uri]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{path} could not be upgraded; its copy is {copy}:\n{done.stderr}", file=sys.stderr)
        return 1
    if _revision(path) == before:
        copy.unlink()
    else:
        print(f"upgraded {path} to the installed MLflow; as it was before: {copy}")
    return 0


def _revision(path: Path) -> str | None:
    """Return the revision of the schema; None if MLflow has created no tables yet."""
    tables = "SELECT count(*) FROM sqlite_master WHERE name = 'alembic_version'"
    with closing(sqlite3.connect(path)) as database:
        if database.execute(tables).fetchone() == (0,):
            return None
        return str(database.execute("SELECT version_num FROM alembic_version").fetchone()[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
