"""Restore a backup of a stack."""

import tarfile
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from infra.stack import backup, postgres
from infra.stack.backup import Manifest
from infra.stack.layout import Layout, StackError

OPTIONS = ("--no-owner", "--exit-on-error", "--single-transaction")
"""Options of pg_restore, also in docs/stack.md."""
UNFINISHED = (
    "SELECT count(*) FROM flow_run WHERE state_type IN ('PENDING', 'RUNNING', 'CANCELLING')"
)


def restore(place: Layout, file: Path, *, replace: bool) -> Manifest:
    """Restore a backup; Postgres runs, the servers do not.

    Args:
        place: Stack, empty unless `replace`.
        file: Backup.
        replace: Replace what the stack has. Its databases are backed up first, its folders are renamed.

    Raises:
        StackError: If the stack has data and `replace` is False, if the file is no whole backup, or if Postgres refuses.
    """
    manifest = backup.read_manifest(file)
    if manifest.postgres > postgres.version(place):
        raise StackError(
            f"{file} is of PostgreSQL {manifest.postgres}, the databases in {place.cluster} are of "
            f"{postgres.version(place)}. Restore it into an empty folder, with PostgreSQL {manifest.postgres} installed."
        )
    folders = backup.own_folders(place)
    if missing := [name for name in manifest.folders if name not in folders]:
        raise StackError(
            f"{file} has {missing[0]}, but REGRADE_ANSWERS names {place.answers}. Unset it to restore them."
        )
    postgres.make_databases(place)
    filled = [name for name in postgres.NAMES if backup.is_filled(place, name)]
    taken = [name for name in manifest.folders if folders[name].exists()]
    if (filled or taken) and not replace:
        raise StackError(
            f"{place.home} is not empty ({', '.join(filled + taken)}). Name another folder with REGRADE_STACK, or "
            "repeat with --replace, which first backs up these databases and renames these folders."
        )
    if filled:
        _drop(place)
    try:
        _fill(place, file, {name: folders[name] for name in manifest.folders})
    except (StackError, OSError) as error:
        raise StackError(
            f"The restore is not complete, repeat it with --replace: {error}"
        ) from error
    return manifest


def unfinished_runs(place: Layout) -> int:
    """Return the number of flow runs that had not ended at the time of the backup."""
    return int(postgres.ask(place, "prefect", UNFINISHED))


def _drop(place: Layout) -> None:
    """Drop the databases, after a backup."""
    kept = backup.keep_databases(place, "restore")
    print(f"the databases as they were before: {kept}", flush=True)
    for name in postgres.NAMES:
        postgres.ask(place, "postgres", f"DROP DATABASE {name}")
    postgres.make_databases(place)


def _fill(place: Layout, file: Path, folders: Mapping[str, Path]) -> None:
    """Fill empty databases, and put folders in the place of others, which are renamed."""
    now = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    with tempfile.TemporaryDirectory(dir=place.home, prefix="restore-") as temporary:
        with tarfile.open(file, "r:") as archive:
            for name in archive.getnames():
                if name.startswith("/") or ".." in Path(name).parts:
                    raise StackError(f"'{file}' is no backup of a stack: it holds '{name}'.")
            # "tar" keeps owners, unlike "data". Python before 3.11.4 has no filters, and keeps owners too.
            kept: dict[str, Any] = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}
            archive.extractall(temporary, **kept)
        for name in postgres.NAMES:
            dump = Path(temporary) / f"{name}.dump"
            owner = (f"--role={name}", f"--dbname={name}")
            postgres.client(place, "pg_restore", *OPTIONS, *owner, str(dump))
        for name, folder in folders.items():
            if folder.exists():
                folder.rename(folder.with_name(f"{folder.name}-before-{now}"))
            folder.parent.mkdir(parents=True, exist_ok=True)
            (Path(temporary) / name).rename(folder)
