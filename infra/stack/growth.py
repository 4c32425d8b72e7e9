"""Sizes of what grows over the years, each with its limit or with the command that makes it smaller."""

import os
from pathlib import Path

from huggingface_hub.constants import HF_HOME

from infra.stack import logs, parts, postgres, prometheus
from infra.stack.layout import HOST, Layout
from regrade.answers.spool import ORIGIN

UNITS = ("bytes", "kB", "MB", "GB", "TB")


def show(place: Layout) -> None:
    """Print sizes and advice; the databases are measured only while Postgres runs."""
    for name, size, advice in rows(place):
        print(f"  {name:<18} {size:>12}   {advice}")


def rows(place: Layout) -> list[tuple[str, str, str]]:
    """Return the name, the size and the advice for everything that grows."""
    store = f"postgresql+psycopg://mlflow@{HOST}:{place.postgres_port}/mlflow"
    collect = (
        f"delete runs on MLflow's pages, then: MLFLOW_TRACKING_URI={place.mlflow_url} PGPASSFILE={place.passwords} "
        f"mlflow gc --backend-store-uri {store} --artifacts-destination {place.artifacts}"
    )
    most = readable(logs.LIMIT_BYTES * (logs.KEPT + 1))
    answers = "on the Hub" if "://" in place.answers else readable(size_of(Path(place.answers)))
    folders = [
        ("artifacts", place.artifacts, "deleted by the same command"),
        ("spool", place.spool, "answers that are not published yet: regrade publish"),
        (
            "logs",
            place.logs,
            f"{most} per part; an engine's are deleted after {logs.RUN_LOG_DAYS} days",
        ),
        ("metrics", place.prometheus, f"deleted after {prometheus.RETENTION}"),
        ("backups", place.backups, "delete those that you do not need"),
        ("Hugging Face cache", Path(HF_HOME), "hf cache ls, then hf cache rm"),
    ]
    kept = parts.kept_runs_seconds()
    kept = f"{int(kept) / 86400:g} days" if kept.isdecimal() else kept
    return [
        (
            "Prefect's database",
            _database(place, "prefect"),
            f"runs are deleted {kept} after their end",
        ),
        ("MLflow's database", _database(place, "mlflow"), collect),
        *((name, readable(size_of(folder)), advice) for name, folder, advice in folders),
        ("answers", answers, f"in {place.answers}"),
    ]


def _database(place: Layout, name: str) -> str:
    if not postgres.answers(place):
        return "not running"
    return readable(int(postgres.ask(place, name, "SELECT pg_database_size(current_database())")))


def spools(place: Layout) -> int:
    """Return the number of answer sets with unpublished answers."""
    return len(list(place.spool.glob(f"*/*/{ORIGIN}")))


def size_of(folder: Path) -> int:
    """Return the bytes of all files below a folder, of hard links once; 0 without the folder."""
    sizes = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                status = os.lstat(Path(parent, name))
            except FileNotFoundError:
                continue
            sizes[status.st_dev, status.st_ino] = status.st_size
    return sum(sizes.values())


def readable(size: float) -> str:
    """Return a number of bytes with its unit, such as `3.1 MB`."""
    unit = 0
    while size >= 999.5 and unit < len(UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.3g} {UNITS[unit]}"
