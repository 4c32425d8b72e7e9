"""Limits of a flow run that a worker started: its parameters name no code, and only files that the worker's owner shares.

Whoever has the login of the Prefect server chooses the parameters of runs on every worker, whatever the server checks. On
the command line nothing is limited.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from regrade.settings.errors import SettingsError
from regrade.settings.files import at_home
from regrade.settings.marks import CODE, NAME, PATH, SCORER, OnWorker
from regrade.settings.registry import IN_FILE, called

STARTED_BY_WORKER = "PREFECT__FLOW_RUN_ID"
"""Environment variable that Prefect sets in the process of a flow run."""
FOLDERS = "REGRADE_FOLDERS"
"""Environment variable with the folders that runs may name, separated by `:`. `regrade worker` always sets it for runs."""
TRACKING = "MLFLOW_TRACKING_URI"
"""Environment variable with the MLflow server of this worker, which gets its credentials for MLflow."""
REMOTE_CODE = "REGRADE_REMOTE_CODE"
"""Environment variable: runs may name code if it is `1`. `regrade worker` sets it to 0 for runs unless it is set."""
_NAME = re.compile(r"(?!\.)[\w.{}+@-]+(?:/(?!\.)[\w.{}+@-]+)*(?:@[\w.+*?,\[\]-]+)?", re.ASCII)
"""Matches names of models, datasets, answer sets, aliases and rubrics, and patterns of revisions. A name of an existing file is a path."""
_ADDRESS = re.compile(r"(?:hf|https?)://\S+")
_SQLITE = "sqlite:///"
_OTHER_SCHEME = re.compile(r"[A-Za-z][\w+.-]+:")


class RefusedParameterError(SettingsError):
    """The worker that started this run does not allow a parameter."""


def may_run_code() -> bool:
    """Return True unless the owner of this worker forbids code from files and model repositories."""
    return os.environ.get(REMOTE_CODE, "1") == "1"


def check_parameters(job: BaseModel) -> None:
    """Refuse parameters of a flow run that its worker does not allow; accept all that a worker did not start.

    Raises:
        RefusedParameterError: If a parameter is a path outside of `REGRADE_FOLDERS`, or names code.
    """
    if STARTED_BY_WORKER not in os.environ or FOLDERS not in os.environ:
        return
    for name, marks, value in _given(job):
        if PATH in marks:
            base = called(value)[0] if SCORER in marks else value
            in_file = re.fullmatch(IN_FILE, base) is not None
            may_be_name = NAME in marks and not in_file
            if in_file or (CODE in marks and not (may_be_name and _is_name(value))):
                _refuse_code(name, value)
            path = base.rpartition(":")[0] if in_file else base
            check_path(name, path, may_be_name=may_be_name)


def _is_name(value: str) -> bool:
    """Return True for a name of which no file exists."""
    return bool(_NAME.fullmatch(value)) and not os.path.lexists(at_home(value))


def check_path(name: str, value: str, *, may_be_name: bool) -> None:
    """Refuse a path outside of the folders of this worker; addresses are accepted.

    Args:
        name: Parameter, for the message.
        value: Path, name of a model or dataset, or address.
        may_be_name: Accept a name of which no file exists.

    Raises:
        RefusedParameterError: If it is a path below none of the folders in `REGRADE_FOLDERS`.
    """
    folders = os.environ.get(FOLDERS)
    if folders is None or (_ADDRESS.fullmatch(value) and ".." not in value.split("/")):
        return
    path = at_home(value.removeprefix(_SQLITE))
    if not _OTHER_SCHEME.match(str(path)):
        place = path.resolve()
        shared = [at_home(folder) for folder in folders.split(os.pathsep) if folder]
        if any(place.is_relative_to(folder.resolve()) for folder in shared):
            return
        if may_be_name and _is_name(value):
            return
    raise RefusedParameterError(
        f"{name}: '{value}' is in none of the folders that this worker shares with runs: "
        f"{folders.replace(os.pathsep, ', ')}. Use one of them, or start the worker with the folder in {FOLDERS}."
    )


def check_tracking(value: str | None) -> None:
    """Refuse an MLflow server that is not this worker's own: it would get the worker's credentials.

    Raises:
        RefusedParameterError: If it is an address other than `MLFLOW_TRACKING_URI`, with or without its user and password.
    """
    own = os.environ.get(TRACKING, "")
    known = {address.rstrip("/") for address in (own, re.sub(r"//[^/@]*@", "//", own))}
    if value is not None and _ADDRESS.match(value) and value.rstrip("/") not in known:
        raise RefusedParameterError(
            f"`tracking_uri`: '{value}' is not the MLflow server of this worker, which would send it its credentials. Leave the "
            f"parameter out, or start the worker with this address in {TRACKING}."
        )


def _refuse_code(name: str, value: str) -> None:
    if not may_run_code():
        raise RefusedParameterError(
            f"{name}: '{value}' is not installed on this worker, which runs nothing else. Take what is installed, or start the "
            f"worker with {REMOTE_CODE}=1: then everyone who can start a run can run programs on its machine."
        )


def refuse_programs(name: str) -> None:
    """Refuse a parameter that is a program to run, unless the owner of this worker allows code.

    Raises:
        RefusedParameterError: If this run was started by a worker that does not.
    """
    _refuse_code(name, "a program")


def marks_of(field: FieldInfo) -> list[Any]:
    """Return the marks of a field, and those of the members of its type: `Annotated[str, PATH] | None` is a path."""
    types, marks = [field.annotation], [*field.metadata]
    while types:
        kind = types.pop()
        marks += getattr(kind, "__metadata__", ())
        types += get_args(kind)
    return marks


def _given(settings: BaseModel, group: str = "") -> Iterator[tuple[str, list[Any], str]]:
    """Yield name, marks and value of each text that was given; checks of single fields are made on the way."""
    for name in sorted(settings.model_fields_set):
        marks = marks_of(type(settings).model_fields[name])
        value = getattr(settings, name)
        for mark in marks:
            if isinstance(mark, OnWorker):
                mark.check(value)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, BaseModel):
                yield from _given(item, f"{group}{name}.")
            elif isinstance(item, str | Path):
                yield f"`{group}{name}`", marks, str(item)
