"""Connect to MLflow: default URI, timeouts, a lock for SQLite, our error types."""

import os
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from regrade.answers.ownership import Busy, owned
from regrade.processes.environment import TELEMETRY_OFF
from regrade.settings.errors import SettingsError, TrackingError
from regrade.settings.files import path_of

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

PARENT_TAG = "mlflow.parentRunId"
# Defaults: variables that the user set are kept. MLflow reads telemetry at import, the others at each call.
_ENVIRONMENT = {
    **TELEMETRY_OFF,
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
_SCHEMES = (
    *("", "file", "http", "https", "sqlite", "mysql", "postgresql", "mssql"),
    *("databricks", "databricks-uc", "uc"),
)
"""Kinds of addresses that MLflow 3 knows; a folder has none."""
_LOCK_SECONDS = 300
"""Timeout for the lock of a SQLite database."""
# MLflow's logging and Python's warnings are switched off for the whole process, so one caller at a time.
_one_caller = threading.Lock()


def default_tracking_uri(answers_uri: str) -> str:
    """Return `MLFLOW_TRACKING_URI`, else a SQLite database next to a local answer folder, else one in this folder."""
    if uri := os.environ.get("MLFLOW_TRACKING_URI"):
        return uri
    folder = Path() if answers_uri.startswith("hf://") else path_of(answers_uri).absolute().parent
    return f"sqlite:///{folder.resolve() / 'mlflow.db'}"


def check_store(uri: str) -> None:
    """Refuse an address of no kind that MLflow or a plug-in of it knows, without importing MLflow or asking a server.

    Raises:
        SettingsError: If it is one.
    """
    scheme = urlsplit(uri).scheme.partition("+")[0]
    plugins = {point.name for point in entry_points(group="mlflow.tracking_store")}
    if scheme not in {*_SCHEMES, *plugins}:
        known = ", ".join(f"`{name}:`" for name in sorted({*filter(None, _SCHEMES), *plugins}))
        raise SettingsError(
            f"`tracking_uri={public_uri(uri)}` is no address of MLflow: `{scheme}:` is unknown. Known: {known}."
        )


def may_have_runs(uri: str) -> bool:
    """Return False if `uri` is a SQLite database that does not exist."""
    path = _sqlite_path(uri)
    return path is None or path.is_file()


def public_uri(uri: str) -> str:
    """Return the URI without user and password, which a query may have, too."""
    for secret in _secrets(uri):
        uri = uri.replace(secret, "", 1)
    return uri


def preload() -> None:
    """Import MLflow and its database store ahead of use, because that takes seconds.

    Import errors are ignored here; `connect` raises them.
    """
    with suppress(ImportError), _one_caller, _quiet():
        import mlflow.store.tracking.sqlalchemy_store  # noqa: F401


@contextmanager
def connect(uri: str) -> Iterator["MlflowClient"]:
    """Yield a client; MLflow logs nothing, and its errors become `TrackingError`.

    Other processes, also of other machines, are kept off a SQLite database: two that create the tables at once would both fail.

    Raises:
        TrackingError: If MLflow cannot be reached or rejects the data.
    """
    with _one_caller, _quiet(), _translated(uri):
        from mlflow import MlflowClient

        with _locked(uri):
            yield MlflowClient(tracking_uri=uri)


def open_store(uri: str) -> None:
    """Open a SQLite database ahead of use: making its tables takes most of a second. Nothing is done for other stores.

    Raises:
        TrackingError: As `connect`.
    """
    if _sqlite_path(uri) is not None:
        with connect(uri) as client:
            client.search_experiments(max_results=1)


def experiment_id(client: "MlflowClient", uri: str, name: str) -> str:
    """Return the id of the experiment called `name`; create it if it does not exist.

    With SQLite, artifacts are stored in `mlartifacts` next to the database; otherwise the server decides.
    """
    from mlflow.exceptions import MlflowException

    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        path = _sqlite_path(uri)
        location = None if path is None else (path.parent / "mlartifacts").as_uri()
        try:
            return client.create_experiment(name, artifact_location=location)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        experiment = client.get_experiment_by_name(name)
    if experiment is None or experiment.lifecycle_stage != "active":
        option = "" if experiment is None else f" --experiment-id {experiment.experiment_id}"
        problem = (
            f"the experiment '{name}' was deleted. Restore it with `mlflow experiments restore{option}`, "
            "or choose another experiment."
        )
        raise TrackingError(public_uri(uri), problem)
    return experiment.experiment_id


def run_url(uri: str, experiment: str, run_id: str) -> str | None:
    """Return the link to a run's page; None if `uri` is not a server.

    Without the query `workflowType`, MLflow opens its page for agents, which is empty for our runs.
    """
    return page_url(uri, f"#/experiments/{experiment}/runs/{run_id}?workflowType=machine_learning")


def page_url(uri: str, page: str) -> str | None:
    """Return the link to a page of MLflow; None if `uri` is not a server."""
    is_server = uri.startswith(("http://", "https://"))
    return f"{public_uri(uri).rstrip('/')}/{page}" if is_server else None


def log_page(uri: str, run_id: str, name: str, page: Callable[[], str], source: str) -> None:
    """Add a page to the artifacts of a run, unless it has one of the same source; another is replaced.

    Args:
        uri: MLflow tracking URI.
        run_id: The run.
        name: Name of the page.
        page: Makes the page.
        source: Digest of what the page is made of.

    Raises:
        TrackingError: If MLflow cannot be reached or rejects it.
    """
    tag = f"regrade.source.{name}"
    with connect(uri) as client:
        if client.get_run(run_id).data.tags.get(tag) == source:
            return
    text = page()
    with connect(uri) as client:
        client.log_text(run_id, text, name)
        client.set_tag(run_id, tag, source)


def artifact_url(run_page: str | None, name: str) -> str | None:
    """Return the link to an artifact on a run's page, as `run_url` gives it; None without a page."""
    if run_page is None:
        return None
    page, _, query = run_page.partition("?")
    return f"{page}/artifacts/{name}?{query}"


def scoring_runs(client: "MlflowClient", experiment: str, tag: str, value: str) -> "list[Run]":
    """Return the runs of all scorings with this tag."""
    from mlflow.utils import get_results_from_paginated_fn

    query = f"tags.`regrade.kind` = 'scoring' and tags.`{tag}` = '{value}'"
    runs: list[Run] = get_results_from_paginated_fn(  # type: ignore[no-untyped-call]
        lambda most, token: client.search_runs(
            [experiment], query, max_results=most, page_token=token
        ),
        max_results_per_page=1000,
    )
    return runs


def _secrets(uri: str) -> list[str]:
    """Return the parts of an address that may hold a user or a password."""
    match = re.match(r"(?!sqlite|file)[\w.+-]+://(\S*@)?[^?&]*([?&].*)?", uri)
    return [*filter(None, match.groups())] if match else []


def _sqlite_path(uri: str) -> Path | None:
    match = re.match(r"sqlite(?:\+\w+)?:///([^?]+)", uri)
    return Path(match.group(1)).resolve() if match and match.group(1) != ":memory:" else None


@contextmanager
def _locked(uri: str) -> Iterator[None]:
    path = _sqlite_path(uri)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with nullcontext() if path is None else owned(path, _LOCK_SECONDS):
            yield
    except Busy as error:
        problem = f"it has belonged to {error.owner or 'another process'} for {_LOCK_SECONDS} s. Try again when that has ended."
        raise TrackingError(uri, problem) from error


@contextmanager
def _quiet() -> Iterator[None]:
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
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
    # OSError: artifacts on disk, and all errors of requests. ImportError: missing driver of a database or store.
    except (MlflowException, SQLAlchemyError, OSError, ImportError) as error:
        secrets, problem = _secrets(uri), str(error)
        for secret in secrets:
            problem = " ".join(problem.replace(secret, "").split())
        # The message of the cause contains the URI with the password, and would be printed too.
        raise TrackingError(public_uri(uri), problem) from (None if secrets else error)
