"""The Postgres cluster of the stack: on loopback, with scram passwords, not run by root."""

import os
import secrets
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from infra.stack.layout import HOST, ROOT, Layout, StackError

SYSTEM_USER = "postgres"
"""User that runs the server if this process runs as root; Debian's package creates it."""
OWNER = "regrade"
"""Superuser of the cluster."""
DATABASES = ROOT / "infra/stack/databases.sql"
ROLES = (OWNER, "prefect", "mlflow")
SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "100",
    "log_min_messages": "warning",
    # Do not log the text of failed statements, which may contain a password.
    "log_min_error_statement": "panic",
}


def binaries() -> Path:
    """Return the folder with the programs of the newest installed Postgres.

    Raises:
        StackError: If Postgres is not installed.
    """
    folders = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    found = sorted((path.parent for path in folders), key=lambda path: float(path.parent.name))
    if found:
        return found[-1]
    on_path = shutil.which("postgres")
    if on_path is None:
        raise StackError("PostgreSQL is not installed. Install it: apt-get install postgresql")
    return Path(on_path).resolve().parent


def as_owner(command: Sequence[str]) -> list[str]:
    """Return the command, run by `SYSTEM_USER` if we are root: Postgres refuses to run as root."""
    if os.geteuid() != 0:
        return list(command)
    ids = ["--reuid", SYSTEM_USER, "--regid", SYSTEM_USER, "--init-groups"]
    return ["setpriv", *ids, "--", *command]


def passwords(layout: Layout) -> dict[str, str]:
    """Return the password of each role. The first call creates the passwords, in a file that only this user can read."""
    if not layout.passwords.exists():
        lines = [f"*:*:*:{role}:{secrets.token_urlsafe(24)}\n" for role in ROLES]
        descriptor = os.open(layout.passwords, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.writelines(lines)
    entries = [line.split(":") for line in layout.passwords.read_text().splitlines()]
    return {entry[3]: entry[4] for entry in entries}


def make_cluster(layout: Layout) -> None:
    """Create the cluster unless it exists.

    Raises:
        StackError: If the user of Postgres cannot enter the folder, or initdb fails.
    """
    if (layout.cluster / "PG_VERSION").exists():
        return
    shutil.rmtree(layout.cluster, ignore_errors=True)  # left by an interrupted initdb
    layout.cluster.mkdir(mode=0o700)
    if os.geteuid() == 0:
        shutil.chown(layout.cluster, SYSTEM_USER, SYSTEM_USER)
    if subprocess.run(as_owner(["test", "-w", str(layout.cluster)]), check=False).returncode:
        raise StackError(
            f"Postgres runs as the user '{SYSTEM_USER}', which cannot enter {layout.cluster}. "
            "Set REGRADE_STACK to a folder that this user can enter, such as /var/lib/regrade-stack."
        )
    secret = layout.home / "initdb-password"  # initdb reads it only from a file
    descriptor = os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(passwords(layout)[OWNER])
        if os.geteuid() == 0:
            shutil.chown(secret, SYSTEM_USER)
        command = [str(binaries() / "initdb"), "--auth=scram-sha-256", "--encoding=UTF8"]
        command += ["--locale=C.UTF-8", f"--username={OWNER}", f"--pwfile={secret}"]
        command += [f"--pgdata={layout.cluster}"]
        made = subprocess.run(
            as_owner(command), capture_output=True, text=True, check=False, cwd="/"
        )
    finally:
        secret.unlink()
    if made.returncode:
        shutil.rmtree(layout.cluster, ignore_errors=True)
        raise StackError(f"initdb failed:\n{made.stderr.strip()}")


def server_command(layout: Layout) -> list[str]:
    """Return the command that starts the server."""
    options = [f"--{name}={value}" for name, value in SETTINGS.items()]
    folder = ["-D", str(layout.cluster), "-p", str(layout.postgres_port)]
    return as_owner([str(binaries() / "postgres"), *folder, *options])


def answers(layout: Layout) -> bool:
    """Return True if the server accepts connections."""
    address = ["-h", HOST, "-p", str(layout.postgres_port), "-U", OWNER, "-d", "postgres"]
    command = [str(binaries() / "pg_isready"), "--quiet", *address]
    return subprocess.run(command, check=False).returncode == 0


def make_databases(layout: Layout, environment: Mapping[str, str]) -> None:
    """Create the roles and databases of Prefect and MLflow unless they exist.

    Raises:
        StackError: If the server refuses.
    """
    by_role = passwords(layout)
    secret = {f"{role.upper()}_DATABASE_PASSWORD": by_role[role] for role in ("prefect", "mlflow")}
    address = ["-h", HOST, "-p", str(layout.postgres_port), "-U", OWNER, "-d", "postgres"]
    options = ["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--file", str(DATABASES)]
    done = subprocess.run(
        [str(binaries() / "psql"), *address, *options],
        env={**environment, **secret, "PGPASSFILE": str(layout.passwords)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise StackError(f"psql failed: {done.stderr.strip()}")
