"""The way to MLflow: where it is, quiet, with bounded waiting, one caller at a time, and its errors as ours."""

import os
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from regrade.errors import TrackingError
from regrade.processes.environment import TELEMETRY_OFF

if TYPE_CHECKING:
    from mlflow import MlflowClient

# Only what the user did not set. MLflow reads most of it at each call, telemetry when it is imported.
_ENVIRONMENT = {
    **TELEMETRY_OFF,
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
_LOCK_SECONDS = 300
# MLflow's logging and Python's warnings are switched for the whole process.
_one_caller = threading.Lock()


def default_tracking_uri(answers_uri: str) -> str:
    """Return `MLFLOW_TRACKING_URI`, else SQLite beside a local answer folder (in this folder for one on the Hub)."""
    if uri := os.environ.get("MLFLOW_TRACKING_URI"):
        return uri
    folder = Path() if "://" in answers_uri else Path(answers_uri).expanduser().absolute().parent
    return f"sqlite:///{folder.resolve() / 'mlflow.db'}"


def is_there(uri: str) -> bool:
    """Return whether MLflow may have runs: a database on SQLite exists, or it is a server."""
    path = _sqlite_path(uri)
    return path is None or path.is_file()


def public_uri(uri: str) -> str:
    """Return the URI without user and password."""
    return uri.replace(_credentials(uri), "", 1)


def preload() -> None:
    """Import MLflow and its database store, which takes seconds, while there is nothing else to do.

    What cannot be imported here is told by `connect`.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    with suppress(ImportError), _one_caller, _quiet():
        import mlflow.store.tracking.sqlalchemy_store  # noqa: F401


@contextmanager
def connect(uri: str) -> Iterator["MlflowClient"]:
    """Yield a client, with MLflow kept quiet and its errors raised as ours.

    SQLite is locked for other processes meanwhile: two that create the tables at the same time would both fail.

    Raises:
        TrackingError: If MLflow cannot be reached or does not take what it is given.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    with _one_caller, _quiet(), _translated(uri):
        from mlflow import MlflowClient

        with _locked(uri):
            yield MlflowClient(tracking_uri=uri)


def experiment_id(client: "MlflowClient", uri: str, name: str) -> str:
    """Return the id of the experiment of that name, created where there is none.

    With SQLite its artifacts lie in `mlartifacts` beside the database; else the server says where.
    """
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        path = _sqlite_path(uri)
        location = None if path is None else (path.parent / "mlartifacts").as_uri()
        try:
            return client.create_experiment(name, artifact_location=location)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        found = client.get_experiment_by_name(name)
    if found is None or found.lifecycle_stage != "active":
        known = "" if found is None else f" --experiment-id {found.experiment_id}"
        problem = (
            f"the experiment '{name}' was deleted. Restore it with `mlflow experiments restore{known}`, "
            "or name another one."
        )
        raise TrackingError(public_uri(uri), problem)
    return found.experiment_id


def run_url(uri: str, experiment: str, run_id: str) -> str | None:
    """Return the link to a run's page; None where no server is known that shows it.

    Without the query, MLflow opens the page made for agents, which is empty here.
    """
    if not uri.startswith(("http://", "https://")):
        return None
    page = f"#/experiments/{experiment}/runs/{run_id}?workflowType=machine_learning"
    return f"{public_uri(uri).rstrip('/')}/{page}"


def _credentials(uri: str) -> str:
    if uri.startswith(("sqlite:", "file:")):
        return ""
    match = re.match(r"[\w.+-]+://(\S*@)", uri)
    return match.group(1) if match else ""


def _sqlite_path(uri: str) -> Path | None:
    match = re.match(r"sqlite(?:\+\w+)?:///([^?]+)", uri)
    return Path(match.group(1)).resolve() if match and match.group(1) != ":memory:" else None


@contextmanager
def _locked(uri: str) -> Iterator[None]:
    path = _sqlite_path(uri)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        lock = nullcontext() if path is None else FileLock(f"{path}.lock", timeout=_LOCK_SECONDS)
        with lock:
            yield
    except Timeout as error:
        problem = f"another process has held '{error.lock_file}' for {_LOCK_SECONDS} s. Try again when it is done."
        raise TrackingError(uri, problem) from error


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow.utils.logging_utils import MLFLOW_LOGGING_STREAM

        before, MLFLOW_LOGGING_STREAM.enabled = MLFLOW_LOGGING_STREAM.enabled, False
        try:
            yield
        finally:
            MLFLOW_LOGGING_STREAM.enabled = before


@contextmanager
def _translated(uri: str) -> Iterator[None]:
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415 (slow)

    try:
        yield
    # OSError: artifacts on disk, and all errors of requests. ImportError: the driver of a database or artifact store.
    except (MlflowException, SQLAlchemyError, OSError, ImportError) as error:
        secret = _credentials(uri)
        problem = " ".join(str(error).replace(secret, "").split()) if secret else str(error)
        # The cause repeats the URI in its message, and would be printed with ours.
        raise TrackingError(public_uri(uri), problem) from (None if secret else error)
