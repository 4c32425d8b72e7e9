"""Folders, files and addresses of the stack."""

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from regrade.settings.files import named_folder

ROOT = Path(__file__).parents[2]
HOST = "127.0.0.1"
FOR_OWNER = partial(os.open, mode=0o600)
"""Opener of a new file that only its owner can read."""


class StackError(Exception):
    """The stack could not be started or stopped; the message says what to do."""


@dataclass(frozen=True)
class Layout:
    """Folder and ports of a stack."""

    home: Path
    """Folder for all files of the stack: databases, artifacts, logs, passwords, state."""
    postgres_port: int
    prefect_port: int
    mlflow_port: int
    view_port: int
    prometheus_port: int | None = None
    """None: Prometheus is switched off."""

    @property
    def cluster(self) -> Path:
        """Folder of the databases, owned by the user of Postgres."""
        return self.home / "postgres"

    @property
    def logs(self) -> Path:
        """Folder with the logs of the parts and of the engines."""
        return self.home / "logs"

    @property
    def worker(self) -> Path:
        """Home folder of the workers' user, if the stack was started as root."""
        return self.home / "worker"

    @property
    def engine_logs(self) -> Path:
        """Folder of the workers with the logs of engines."""
        return self.logs / "engines"

    @property
    def artifacts(self) -> Path:
        """Folder with the files of MLflow's runs."""
        return self.home / "artifacts"

    @property
    def spool(self) -> Path:
        """Folder of the workers with answers that are not published yet."""
        return named_folder("REGRADE_SPOOL") or self.home / "spool"

    @property
    def backups(self) -> Path:
        """Folder with the backups that the stack makes by itself, before an upgrade and before a restore."""
        return self.home / "backups"

    @property
    def passwords(self) -> Path:
        """File with the passwords, in the format of PGPASSFILE, for libpq and asyncpg."""
        return self.home / "pgpass"

    @property
    def login(self) -> Path:
        """File with the variables of clients: addresses of the servers and Prefect's login."""
        return self.home / ".env"

    @property
    def state(self) -> Path:
        """File with the processes that the stack started."""
        return self.home / "running.json"

    @property
    def prometheus(self) -> Path:
        """Folder of Prometheus' data."""
        return self.home / "prometheus"

    @property
    def prometheus_config(self) -> Path:
        """File with Prometheus' configuration, written at each start."""
        return self.home / "prometheus.yml"

    @property
    def targets(self) -> Path:
        """Folder with files that name further targets of Prometheus."""
        return self.home / "targets"

    @property
    def prometheus_url(self) -> str:
        """Address of Prometheus."""
        return f"http://{HOST}:{self.prometheus_port}"

    @property
    def prefect_url(self) -> str:
        """Address of the Prefect UI; the API is at `/api`."""
        return f"http://{HOST}:{self.prefect_port}"

    @property
    def mlflow_url(self) -> str:
        """Address of the MLflow UI and API."""
        return f"http://{HOST}:{self.mlflow_port}"

    @property
    def view_url(self) -> str:
        """Address of the viewer: REGRADE_VIEW_URL, else on this machine."""
        return os.environ.get("REGRADE_VIEW_URL") or f"http://{HOST}:{self.view_port}"

    @property
    def answers(self) -> str:
        """Answer repository of the workers."""
        return os.environ.get("REGRADE_ANSWERS") or str(self.home / "answers")

    def make(self) -> None:
        """Create the folders of the stack and of its logs; the user of Postgres must be able to enter."""
        for folder in (self.home, self.logs):
            folder.mkdir(parents=True, exist_ok=True)
        self.home.chmod(0o711)


def layout() -> Layout:
    """Return the layout, as set by environment variables.

    Raises:
        StackError: If a port is not a number from 1 to 65535.
    """
    home = Path(os.environ.get("REGRADE_STACK") or ROOT / ".stack").absolute()
    return Layout(
        home=home,
        postgres_port=_port("REGRADE_POSTGRES_PORT", 5433),
        prefect_port=_port("REGRADE_PREFECT_PORT", 4200),
        mlflow_port=_port("REGRADE_MLFLOW_PORT", 5000),
        view_port=_port("REGRADE_VIEW_PORT", 4300),
        prometheus_port=None
        if os.environ.get("REGRADE_PROMETHEUS_PORT") == "off"
        else _port("REGRADE_PROMETHEUS_PORT", 9090),
    )


def _port(name: str, default: int) -> int:
    text = os.environ.get(name) or str(default)
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise StackError(f"{name} is '{text}', expected a port from 1 to 65535.")
    return int(text)
