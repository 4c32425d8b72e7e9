"""Bring the databases to the schema of the installed Prefect and MLflow, after a backup.

The comment on a database names the package that last upgraded it, such as `mlflow==3.17.2`. Another installed version
is the reason for a backup and an upgrade. A database that was restored from a backup has no comment.
"""

import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version

from infra.stack import backup, postgres, processes
from infra.stack.layout import Layout, StackError
from infra.stack.parts import Part

COMMANDS = {
    "prefect": ("prefect", "server", "database", "upgrade", "--yes"),
    "mlflow": ("mlflow", "db", "upgrade"),
}


def upgrade(place: Layout, servers: Mapping[str, Part]) -> None:
    """Upgrade the databases whose package has changed; Postgres runs, the servers do not.

    Args:
        place: Stack.
        servers: Servers by name; their environment has the addresses of the databases.

    Raises:
        StackError: If the backup or an upgrade fails.
    """
    wanted = {name: f"{name}=={version(name)}" for name in postgres.NAMES}
    before = {name: _last_upgraded_by(place, name) for name in postgres.NAMES}
    behind = [name for name in postgres.NAMES if before[name] != wanted[name]]
    kept = None
    if any(backup.is_filled(place, name) for name in behind):
        changes = ", ".join(f"{before[name] or 'unknown'} -> {wanted[name]}" for name in behind)
        kept = backup.keep_databases(place, "upgrade")
        print(f"upgrading the databases ({changes}), after a backup: {kept}", flush=True)
    started = {name: _start(place, servers[name]) for name in behind}
    try:
        for process in started.values():
            process.wait()
    finally:
        for process in started.values():
            if process.poll() is None:
                process.terminate()
    for name, process in started.items():
        if process.returncode:
            _failed(place, name, before[name], wanted[name], kept is not None)
        postgres.ask(place, name, f"COMMENT ON DATABASE {name} IS '{wanted[name]}'")


def _last_upgraded_by(place: Layout, name: str) -> str:
    statement = (
        f"SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = '{name}'"
    )
    return postgres.ask(place, name, statement)


def _start(place: Layout, server: Part) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", *COMMANDS[server.name]]
    if server.name == "mlflow":
        command.append(server.environment["MLFLOW_BACKEND_STORE_URI"])
    log = place.logs / f"{server.name}-upgrade.log"
    return processes.spawn(command, server.environment, log, session=False)


def _failed(place: Layout, name: str, before: str, wanted: str, backed_up: bool) -> None:
    reason = processes.ended(
        f"the upgrade of {name}'s database", place.logs / f"{name}-upgrade.log"
    )
    if not backed_up:
        raise reason
    raise StackError(
        f"{reason}\nThe database was last used by {before or 'an unknown version'}; {wanted} is installed. Install "
        f"the earlier version again, or restore a backup of {place.backups}: docs/stack.md."
    )
