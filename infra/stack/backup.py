"""Back up a stack into one file; `restore.py` reads it.

The file is a tar archive: `prefect.dump` and `mlflow.dump` (custom format of pg_dump), the folders `artifacts` and
`answers`, and as its last member `backup.json`, so that a file that was cut off is noticed. Passwords are not in it.
"""

import json
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from infra.stack import postgres
from infra.stack.layout import FOR_OWNER, Layout, StackError

FORMAT = 1
"""Version of the archive."""
MANIFEST = "backup.json"
DUMP = ("--format=custom",)
"""Options of pg_dump, also in docs/stack.md."""


@dataclass(frozen=True)
class Manifest:
    """Contents of `backup.json`."""

    format: int
    made: str
    """Time in UTC, ISO 8601."""
    packages: dict[str, str]
    """Versions of Prefect and MLflow, whose schema the databases have."""
    postgres: int
    """Major version."""
    folders: list[str]
    answers: str
    """Answer repository of the stack; in the archive only if `folders` has `answers`."""


def own_folders(place: Layout) -> dict[str, Path]:
    """Return the folders of a backup by their names in it: artifacts, and answers if they are in the stack's folder."""
    folders = {"artifacts": place.artifacts}
    if "://" not in place.answers and Path(place.answers).absolute().is_relative_to(place.home):
        folders["answers"] = Path(place.answers).absolute()
    return folders


def is_filled(place: Layout, database: str) -> bool:
    """Return True if a database has tables."""
    statement = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
    return postgres.ask(place, database, statement) != "0"


def write(place: Layout, file: Path, folders: Mapping[str, Path]) -> Manifest:
    """Write a backup that only this user can read, and return its manifest; Postgres runs, and the servers may.

    The databases are dumped first: files to which they refer existed before.

    Args:
        place: Stack.
        file: File to create.
        folders: Folders to copy, by their names in the archive.

    Raises:
        StackError: If the file exists or cannot be written, or pg_dump fails.
    """
    if file.exists():
        raise StackError(f"{file} exists. Name a new file.")
    partial = file.with_name(f"{file.name}.partial")
    here = [name for name, folder in folders.items() if folder.is_dir()]
    try:
        with (
            tempfile.TemporaryDirectory(dir=place.home, prefix="backup-") as temporary,
            open(partial, "wb", opener=FOR_OWNER) as output,
            tarfile.open(fileobj=output, mode="w") as archive,
        ):
            for name in postgres.NAMES:
                dump = Path(temporary) / f"{name}.dump"
                postgres.client(place, "pg_dump", *DUMP, "--dbname", name, "--file", str(dump))
                archive.add(dump, dump.name)
                dump.unlink()
            for name in here:
                for path in _ordered(folders[name]):
                    with suppress(FileNotFoundError):  # deleted by a server meanwhile
                        inside = Path(name) / path.relative_to(folders[name])
                        archive.add(path, str(inside), recursive=False)
            manifest = _manifest(place, here)
            last = Path(temporary) / MANIFEST
            last.write_text(json.dumps(asdict(manifest), indent=2))
            archive.add(last, MANIFEST)
        partial.rename(file)
    except OSError as error:
        raise StackError(f"{file} cannot be written: {error.strerror or error}.") from error
    finally:
        partial.unlink(missing_ok=True)
    return manifest


def keep_databases(place: Layout, before: str) -> Path:
    """Back up the databases in the stack's own folder of backups before something replaces them; return the file."""
    place.backups.mkdir(exist_ok=True)
    kept = place.backups / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-before-{before}.tar"
    write(place, kept, folders={})
    return kept


def _manifest(place: Layout, folders: list[str]) -> Manifest:
    made = datetime.now(UTC).isoformat(timespec="seconds")
    packages = {name: version(name) for name in postgres.NAMES}
    return Manifest(FORMAT, made, packages, postgres.version(place), folders, place.answers)


def _ordered(folder: Path) -> Iterator[Path]:
    """Yield all paths below a folder. Of answers, first the commits; the contents that they keep before and after the rest.

    A commit keeps a content first, and puts it at its path last; one that leaves its path is kept again. So the copy has all
    files of its commits (docs/decisions/0002-local-repository.md).
    """
    history = folder / ".regrade"
    yield folder
    if history.exists():
        yield history
    first = [path for name in ("log.jsonl", "commits") for path in _below(history / name)]
    kept = _below(history / "objects")
    yield from first
    yield from kept
    done = {history, *first, *kept}
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).parts
        if path not in done and inside[:2] not in ((".regrade", "tmp"), (".regrade", "commits")):
            yield path


def _below(path: Path) -> list[Path]:
    """Return a path and all below it, if it exists."""
    return [path, *sorted(path.rglob("*"))] if path.exists() else []


def read_manifest(file: Path) -> Manifest:
    """Return the manifest of a backup.

    Raises:
        StackError: If the file is missing, no backup, not whole, or of a newer format.
    """
    try:
        with tarfile.open(file, "r:") as archive:
            last = archive.getmembers()[-1]
            content = archive.extractfile(last) if last.name == MANIFEST else None
            if content is None:
                raise StackError(
                    f"{file} is not a whole backup: its last member is not {MANIFEST}."
                )
            manifest = TypeAdapter(Manifest).validate_json(content.read())
    except (OSError, EOFError, tarfile.TarError, IndexError, ValidationError) as error:
        raise StackError(f"{file} is not a whole backup of a stack: {error}") from error
    if manifest.format != FORMAT:
        raise StackError(f"{file} has format {manifest.format}, expected {FORMAT}. Update regrade.")
    return manifest
