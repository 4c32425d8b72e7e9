"""The Postgres cluster of the stack: on loopback, with scram passwords, not run by root."""

import os
import re
import secrets
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from infra.stack.layout import FOR_OWNER, HOST, ROOT, Layout, StackError

SYSTEM_USER = "postgres"
"""User that runs the server if this process runs as root; Debian's package creates it."""
OWNER = "regrade"
"""Superuser of the cluster."""
STOP = (signal.SIGINT, 30.0)
"""Signal for a fast shutdown, and the seconds until SIGKILL."""
DATABASES = ROOT / "infra/stack/databases.sql"
NAMES = ("prefect", "mlflow")
"""Databases, and the roles that own them."""
ROLES = (OWNER, *NAMES)
SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "100",
    "log_min_messages": "warning",
    # Do not log the text of failed statements, which may contain a password.
    "log_min_error_statement": "panic",
}


def installed() -> dict[int, Path]:
    """Return the folders with Postgres' programs, by major version; Debian installs several side by side."""
    folders = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    found = {int(path.parents[1].name): path.parent for path in folders}
    if not found and (on_path := shutil.which("postgres")):
        told = subprocess.run([on_path, "--version"], capture_output=True, text=True, check=True)
        number = re.search(r"\d+", told.stdout)
        found = {int(number[0]): Path(on_path).resolve().parent} if number else {}
    return found


def has_cluster(layout: Layout) -> bool:
    """Return True if the databases were created."""
    return (layout.cluster / "PG_VERSION").exists()


def version(layout: Layout) -> int:
    """Return the major version of Postgres that the databases belong to."""
    return int((layout.cluster / "PG_VERSION").read_text())


def binaries(layout: Layout | None = None) -> Path:
    """Return the folder with Postgres' programs: of the version of the databases, or the newest for new databases.

    Raises:
        StackError: If this version, or any, is not installed.
    """
    found = installed()
    if not found:
        raise StackError("PostgreSQL is not installed. Install it: apt-get install postgresql")
    if layout is None or not has_cluster(layout):
        return found[max(found)]
    wanted = version(layout)
    if wanted not in found:
        others = ", ".join(map(str, sorted(found)))
        raise StackError(
            f"The databases in {layout.cluster} are of PostgreSQL {wanted}, which is not installed (installed: "
            f"{others}). Install it: apt-get install postgresql-{wanted}. The way to the next version is in "
            "docs/stack.md."
        )
    return found[wanted]


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
        with open(layout.passwords, "x", opener=FOR_OWNER) as file:
            file.writelines(lines)
    entries = [line.split(":") for line in layout.passwords.read_text().splitlines()]
    return {entry[3]: entry[4] for entry in entries}


def make_cluster(layout: Layout) -> None:
    """Create the cluster unless it exists.

    Raises:
        StackError: If the user of Postgres cannot enter the folder, or initdb fails.
    """
    if has_cluster(layout):
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
    try:
        with open(secret, "w", opener=FOR_OWNER) as file:
            file.write(passwords(layout)[OWNER])
        if os.geteuid() == 0:
            shutil.chown(secret, SYSTEM_USER)
        command = [str(binaries(layout) / "initdb"), "--auth=scram-sha-256", "--encoding=UTF8"]
        command += ["--locale=C.UTF-8", f"--username={OWNER}", f"--pwfile={secret}"]
        command += [f"--pgdata={layout.cluster}"]
        made = subprocess.run(
            as_owner(command), capture_output=True, text=True, check=False, cwd="/"
        )
    finally:
        secret.unlink(missing_ok=True)
    if made.returncode:
        shutil.rmtree(layout.cluster, ignore_errors=True)
        raise StackError(f"initdb failed:\n{made.stderr.strip()}")


def server_command(layout: Layout) -> list[str]:
    """Return the command that starts the server."""
    options = [f"--{name}={value}" for name, value in SETTINGS.items()]
    folder = ["-D", str(layout.cluster), "-p", str(layout.postgres_port)]
    return as_owner([str(binaries(layout) / "postgres"), *folder, *options])


def answers(layout: Layout) -> bool:
    """Return True if the server accepts connections."""
    address = ["-h", HOST, "-p", str(layout.postgres_port), "-U", OWNER, "-d", "postgres"]
    command = [str(binaries(layout) / "pg_isready"), "--quiet", *address]
    return subprocess.run(command, check=False).returncode == 0


def make_databases(layout: Layout) -> None:
    """Create the roles and databases of Prefect and MLflow unless they exist.

    Raises:
        StackError: If the server refuses.
    """
    by_role = passwords(layout)
    secret = {f"{name.upper()}_DATABASE_PASSWORD": by_role[name] for name in NAMES}
    _psql(layout, "postgres", ["--file", str(DATABASES)], secret)


def ask(layout: Layout, database: str, statement: str) -> str:
    """Run an SQL statement as the superuser and return what it selects: lines, with `|` between columns.

    Raises:
        StackError: If the server refuses.
    """
    return _psql(layout, database, ["--tuples-only", "--no-align", "--command", statement])


def client(
    layout: Layout, program: str, *options: str, **secret: str
) -> subprocess.CompletedProcess[str]:
    """Run a client program of Postgres, such as `pg_dump`, as the superuser.

    Args:
        layout: Stack whose server runs.
        program: Name of the program.
        *options: Its options, besides the address.
        **secret: Its variables, besides the file of passwords.

    Raises:
        StackError: If it fails.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    address = ["--host", HOST, "--port", str(layout.postgres_port), "--username", OWNER]
    done = subprocess.run(
        [str(binaries(layout) / program), *address, "--no-password", *options],
        env={**inherited, **secret, "PGPASSFILE": str(layout.passwords)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise StackError(f"{program} failed: {done.stderr.strip()}")
    return done


def _psql(
    layout: Layout, database: str, options: Sequence[str], secret: Mapping[str, str] | None = None
) -> str:
    quiet = ["--dbname", database, "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1"]
    return client(layout, "psql", *quiet, *options, **(secret or {})).stdout.strip()
