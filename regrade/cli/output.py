"""Output of the commands on stdout: a table, JSON or nothing."""

import json as json_module
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Group, Parameter
from cyclopts.validators import mutually_exclusive
from pydantic import BaseModel

from regrade.answers.base import Repository
from regrade.cli.options import WHERE
from regrade.settings.errors import TrackingError
from regrade.settings.project_folder import VERSION
from regrade.text.text import visible

_ONE_FORM = (WHERE, Group(validator=mutually_exclusive))


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Output:
    """Form of a command's output on stdout."""

    json: Annotated[
        bool,
        Parameter(group=_ONE_FORM, help="Print one JSON document on stdout instead of a table."),
    ] = False
    quiet: Annotated[
        bool,
        Parameter(
            name=("--quiet", "-q"),
            group=_ONE_FORM,
            help="Print only warnings and errors; the exit code is the result.",
        ),
    ] = False

    def show(self, document: BaseModel | Mapping[str, Any], draw: Callable[[], None]) -> None:
        """Print a result on stdout, unless the command is quiet.

        Args:
            document: The result for `--json`.
            draw: Prints the result for people.
        """
        if self.quiet:
            return
        if self.json:
            _write(document)
        else:
            draw()


TABLE = Output()
_written: list[str] = []
"""The documents on stdout: at most one."""


def json_text(document: BaseModel | Mapping[str, Any]) -> str:
    """Return a result as JSON that begins with the version of regrade that wrote it."""
    content = (
        json_module.loads(document.model_dump_json())
        if isinstance(document, BaseModel)
        else dict(document)
    )
    versioned = {"regrade_version": VERSION, **content}
    return json_module.dumps(versioned, indent=2, ensure_ascii=False) + "\n"


def show_error(message: str, code: int) -> None:
    """Print an error as the JSON document on stdout, unless a result was printed there."""
    if not _written:
        _write({"error": {"message": message, "exit_code": code}})


def _write(document: BaseModel | Mapping[str, Any]) -> None:
    text = json_text(document)
    _written.append(text)
    sys.stdout.write(text)


def open_answers(answers: str | None) -> tuple[Repository, str]:
    """Return the answer repository and its newest revision.

    Raises:
        RepositoryError: If it does not exist or holds no answers.
    """
    # Commands that open no repository do not import these.
    from regrade.answers.opening import newest_revision, open_repository  # noqa: PLC0415
    from regrade.jobs.job import default_answers  # noqa: PLC0415

    repository = open_repository(answers or default_answers(), create=False)
    return repository, newest_revision(repository)


def tag_runs(tracking_uri: str | None, answers: str, tag: Callable[[str], int]) -> int | None:
    """Tag runs in MLflow if there are any; a failure is only a warning on stderr.

    Args:
        tracking_uri: MLflow server or database chosen by the user; a warning is printed if it has no such runs.
        answers: Address of the answer repository; the default database is beside it.
        tag: Tags the runs at an MLflow URI and returns their number.

    Returns:
        Number of tagged runs; None without MLflow.
    """
    from regrade.tracking.connection import default_tracking_uri, may_have_runs  # noqa: PLC0415

    uri = tracking_uri or default_tracking_uri(answers)
    chosen = tracking_uri is not None or "MLFLOW_TRACKING_URI" in os.environ
    if not chosen and not may_have_runs(uri):
        return None
    try:
        tagged = tag(uri)
    except TrackingError as error:
        sys.stderr.write(f"regrade: not tagged: {visible(str(error))}\n")
        return None
    if not tagged and chosen:
        sys.stderr.write(
            "regrade: not tagged: MLflow has no runs of these answers; `regrade score` creates them\n"
        )
    return tagged
