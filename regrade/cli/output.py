"""Output of the commands on stdout: a table, JSON or nothing."""

import json as json_module
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter
from cyclopts.validators import mutually_exclusive
from pydantic import BaseModel

from regrade.answers.base import Repository
from regrade.cli.naming import NAMING
from regrade.cli.options import WHERE
from regrade.settings.errors import DamagedAnswersError, RegradeError, SettingsError, TrackingError
from regrade.settings.files import cache_folder
from regrade.settings.project_folder import VERSION
from regrade.text.text import visible

if TYPE_CHECKING:
    from regrade.answers.sets import AnswerSet
    from regrade.comparing.gate_report import GateReport
    from regrade.text.blocks import Block

_ONE_FORM = (WHERE, Group(validator=mutually_exclusive))


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Output:
    """Form of a command's output on stdout."""

    json: Annotated[bool, Parameter(group=_ONE_FORM)] = False
    """Print one JSON document on stdout instead of a table."""
    quiet: Annotated[bool, Parameter(name=("--quiet", "-q"), group=_ONE_FORM)] = False
    """Print only warnings and errors; the exit code is the result."""

    def show(
        self,
        document: BaseModel | Mapping[str, Any],
        draw: "Callable[[], Iterable[Block] | None]",
        damaged: Iterable[DamagedAnswersError] | None = None,
    ) -> None:
        """Print a result on stdout, unless the command is quiet.

        Args:
            document: The result for `--json`.
            draw: Returns the result for people, or prints it.
            damaged: What the result leaves out, for `damaged` in the JSON. None: it leaves out nothing.
        """
        if self.quiet:
            return
        if self.json:
            _write(document, damaged)
        elif (blocks := draw()) is not None:
            from regrade.cli.terminal import print_blocks  # noqa: PLC0415 - only a page for people needs it

            print_blocks(list(blocks))

    def files(
        self, written: Sequence[Path], damaged: Iterable[DamagedAnswersError] | None = None
    ) -> None:
        """Print the files that a command wrote, unless the command is quiet; see `show`."""
        lines = "".join(f"{visible(str(path))}\n" for path in written)
        document = {"files": [str(path) for path in written]}
        self.show(document, lambda: _write_text(lines), damaged)

    def show_line(self, document: Mapping[str, Any]) -> None:
        """Print one of several results on stdout as a line of JSON."""
        text = json_module.dumps({"regrade_version": VERSION, **document}) + "\n"
        _written.append(text)
        sys.stdout.write(text)
        sys.stdout.flush()


TABLE = Output()
ERROR_LOG = "errors.log"
"""Log of unforeseen errors, in the cache folder."""
_written: list[str] = []
"""The documents on stdout: at most one, or one for each model that came."""


def end_if_left_out(damaged: Iterable[DamagedAnswersError]) -> None:
    """Name on stderr what a result leaves out; the exit code is 1 if there is anything."""
    errors = [*damaged]
    for error in errors:
        sys.stderr.write(f"regrade: left out: {visible(str(error))}\n")
    if errors:
        raise SystemExit(1)


def _write_text(text: str) -> None:
    sys.stdout.write(text)


def json_text(
    document: BaseModel | Mapping[str, Any], damaged: Iterable[DamagedAnswersError] | None = None
) -> str:
    """Return a result as JSON that begins with the version of regrade that wrote it; see `Output.show`."""
    content = (
        json_module.loads(document.model_dump_json())
        if isinstance(document, BaseModel)
        else dict(document)
    )
    versioned = {"regrade_version": VERSION, **content}
    if damaged is not None:
        versioned["damaged"] = [{"path": error.path, "problem": error.problem} for error in damaged]
    return json_module.dumps(versioned, indent=2, ensure_ascii=False) + "\n"


def show_error(message: str, code: int) -> None:
    """Print an error as the JSON document on stdout, unless a result was printed there."""
    if not _written:
        _write({"error": {"message": message, "exit_code": code}})


def message_of(error: BaseException) -> str:
    """Return an error in words; of an unforeseen one with its type."""
    if isinstance(error, RegradeError):
        return str(error)
    return f"{type(error).__name__}: {error}"


def log_unforeseen(error: Exception) -> str:
    """Write the traceback of an unforeseen error into the log, and return the error in a sentence that says where it is."""
    from logging.handlers import RotatingFileHandler  # noqa: PLC0415 - only a failure needs it

    path = cache_folder() / ERROR_LOG
    trace = "".join(traceback.format_exception(error))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = RotatingFileHandler(path, maxBytes=1_000_000, backupCount=1, encoding="utf-8")
        with closing(handler):
            text = f"{datetime.now(UTC).isoformat()} regrade {VERSION}\n{trace}"
            handler.emit(logging.makeLogRecord({"msg": text}))
        where = f"The traceback is in '{path}': please report it"
    except OSError:
        sys.stderr.write(trace)
        where = "Please report the traceback above"
    return f"Not foreseen: {' '.join(message_of(error).split())}. {where}."


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ReportFiles:
    """Files for the report of a command that gives a verdict."""

    markdown: Annotated[Path | None, Parameter(group=WHERE)] = None
    """File for the report as markdown, which a GitHub job also shows in its summary."""
    junit: Annotated[Path | None, Parameter(group=WHERE)] = None
    """File for the report as JUnit XML."""
    html: Annotated[Path | None, Parameter(group=WHERE)] = None
    """File for a report to hand on, as `regrade report` writes it, if there is a verdict and this machine may read the answers."""

    @contextmanager
    def written_on_failure(
        self, name: str, page: Callable[[str], str], *files: Path | None
    ) -> Iterator[None]:
        """Empty the files before the block, and write them if the block raises an error, which is raised again.

        Nothing of an earlier run is left in them. The JUnit file is a valid one at once, of a run without a result: whatever kills
        the command, a CI server can read it. The HTML is only written with a result.

        Args:
            name: Name of the test case in JUnit XML.
            page: Makes the page in markdown from the error.
            files: Other files that the block writes; None is skipped.

        Raises:
            SettingsError: If a file cannot be written.
        """
        from regrade.comparing.junit import junit_run  # noqa: PLC0415 - only CI needs these
        from regrade.text.files import write_file  # noqa: PLC0415

        try:
            for path in filter(None, (*files, self.markdown, self.html)):
                write_file(path, "")
            if self.html is not None:
                self.html.unlink()
            if self.junit is not None:
                write_file(self.junit, junit_run(name, "The command ended before it had a result."))
            yield
        except Exception as error:
            problem = NAMING.get()(message_of(error))
            text = page(problem)
            try:
                self.write(text, junit_run(name, problem))
            except SettingsError as unwritten:
                if str(unwritten) != str(error):
                    logging.getLogger("regrade.report").warning("%s", unwritten)
            raise

    def write(self, page: str, junit: str, *others: tuple[Path | None, str]) -> None:
        """Write the page and the JUnit XML, and other files; a path of None is skipped.

        Raises:
            SettingsError: If a file cannot be written.
        """
        from regrade.text.files import write_reports  # noqa: PLC0415 - as above

        write_reports(page, (self.markdown, page), (self.junit, junit), *others)

    def write_html(self, judged: "GateReport | None") -> None:
        """Write the HTML, which takes seconds, if it was asked for and there is a verdict."""
        if self.html is not None and judged is not None:
            from regrade.pages.report.of_verdict import write_verdict_report  # noqa: PLC0415 - slow imports

            write_verdict_report(self.html, judged)


def _write(
    document: BaseModel | Mapping[str, Any], damaged: Iterable[DamagedAnswersError] | None = None
) -> None:
    text = json_text(document, damaged)
    _written.append(text)
    sys.stdout.write(text)


def open_answers(answers: str | None) -> tuple[Repository, str]:
    """Return the answer repository and its newest revision.

    Raises:
        RepositoryError: If it does not exist or holds no answers.
    """
    # Commands that open no repository do not import these.
    from regrade.answers.opening import newest_revision, open_repository  # noqa: PLC0415
    from regrade.settings.view_address import default_answers  # noqa: PLC0415

    repository = open_repository(answers or default_answers(), create=False)
    return repository, newest_revision(repository)


def open_set(answers: str | None, name: str, *, newest: bool = False) -> "AnswerSet":
    """Return an answer set of the repository, at its newest revision.

    Args:
        answers: The repository.
        name: Answer set id (the first digits are enough), model or alias.
        newest: Of several answer sets take the newest; else they are an error that lists them.
    """
    from regrade.answers.sets import list_sets  # noqa: PLC0415 - as above
    from regrade.comparing.sides import named_id  # noqa: PLC0415 - as above

    repository, revision = open_answers(answers)
    set_id = named_id(repository, revision, name, newest=newest)
    return list_sets(repository, revision, answer_set_id=set_id)[0]


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
