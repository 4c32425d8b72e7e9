"""What a person at a terminal sees: our own log lines, a progress bar, one table. The rest goes to a file."""

import logging
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

if TYPE_CHECKING:
    from regrade.generation import Progress as GenerationProgress
    from regrade.reporting.results import Evaluation

stderr = Console(stderr=True, highlight=False)
stdout = Console(highlight=False, soft_wrap=True)
if not stdout.is_terminal:
    stdout = Console(
        highlight=False, soft_wrap=True, width=200
    )  # a file or a pipe has no width to fit into
LINE_SECONDS = 15.0
"""Without a terminal, progress is a log line this often."""


def log_to(path: Path) -> None:
    """Send `regrade`'s log lines to stderr, and everything else to a file."""
    to_file = logging.FileHandler(path, delay=True)
    to_file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.getLogger().addHandler(
        to_file
    )  # a root handler of ours keeps Prefect's console handler away
    logging.getLogger().setLevel(logging.INFO)
    logging.captureWarnings(capture=True)
    ours = logging.getLogger("regrade")
    ours.setLevel(logging.INFO)
    ours.addHandler(TerminalHandler())
    ours.addHandler(to_file)


class TerminalHandler(logging.Handler):
    """One line per record on stderr, above a progress bar if there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the record."""
        style = {logging.WARNING: "yellow", logging.ERROR: "red"}.get(record.levelno, "")
        stderr.print(
            f"{time.strftime('%H:%M:%S')} {visible(record.getMessage())}", style=style, markup=False
        )


class TerminalDisplay:
    """Progress of loading and generating on stderr."""

    def __init__(self) -> None:
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
            console=stderr,
            transient=True,
        )
        self._tasks: dict[str, int] = {}
        self._last_line = time.monotonic()
        self._log = logging.getLogger("regrade.generate")
        self.evaluation: Evaluation | None = None
        """The result, once it is known."""

    def finished(self, evaluation: "Evaluation") -> None:
        """Keep the result, for printing it when the flow has ended."""
        self.evaluation = evaluation

    def loading(self, what: str) -> None:
        """Show that the engine is being loaded."""
        self._log.info("loading %s", what)
        self._tasks["loading"] = self._bar.add_task(f"loading {what}", total=None, speed="")

    def loaded(self) -> None:
        """Take the loading line away."""
        self._bar.remove_task(self._tasks.pop("loading"))  # type: ignore[arg-type]
        self._last_line = time.monotonic()

    def advance(self, title: str, progress: "GenerationProgress") -> None:
        """Show how far one answer set is."""
        speed = f"{progress.tokens_per_second:,.0f} tokens/s"
        if title not in self._tasks:
            self._tasks[title] = self._bar.add_task(title, total=progress.total, speed=speed)
        self._bar.update(self._tasks[title], completed=progress.done, speed=speed)  # type: ignore[arg-type]
        if not stderr.is_terminal and time.monotonic() - self._last_line > LINE_SECONDS:
            self._last_line = time.monotonic()
            left = progress.seconds_left
            self._log.info(
                "%s: %d of %d answers, %s%s",
                title,
                progress.done,
                progress.total,
                speed,
                "" if left is None else f", {left:.0f} s left",
            )

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the bar while the block runs, if there is a terminal."""
        if not stderr.is_terminal:
            yield
            return
        with self._bar:
            yield


def print_evaluation(evaluation: "Evaluation") -> None:
    """Print the table of results on stdout."""
    # Only a command that has results pays for loading what they are made of (0.2 s).
    from regrade.reporting.tables import COLUMNS, TEXT_COLUMNS, table_rows  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, name in enumerate(COLUMNS):
        table.add_column(name, justify="left" if number < TEXT_COLUMNS else "right", no_wrap=True)
    for row in table_rows(evaluation):
        table.add_row(*(plain(cell) for cell in row))
    stdout.print(table)


def print_next_steps(evaluation: "Evaluation") -> None:
    """Print the commands that a person is likely to want now, on stderr."""
    where = (
        f" --answers {evaluation.repository}"
        if evaluation.repository != str(Path("answers").absolute())
        else ""
    )
    command = Path(sys.executable).with_name("regrade")
    shown = "regrade" if shutil.which("regrade") else os.path.relpath(command)
    bin_folder = "" if shutil.which("mlflow") else os.path.relpath(command.parent) + "/"
    first = evaluation.answer_sets[0].answer_set_id
    steps = [
        ("read wrong answers", f"{shown} show {first}{where} --wrong"),
        ("grade them again", f"{shown} score{where} --force"),
    ]
    if (uri := evaluation.tracking_uri) and uri.startswith("sqlite"):
        steps.append(
            ("open MLflow", f"{bin_folder}mlflow server --host 127.0.0.1 --backend-store-uri {uri}")
        )
    server = os.environ.get("PREFECT_API_URL")
    ui = server.removesuffix("/api") if server else f"{bin_folder}prefect server start"
    steps.append(("open the Prefect UI", ui))
    stderr.print()
    for what, how in steps:
        stderr.print(f"{what:<20} {how}", markup=False, soft_wrap=True)


def plain(text: str) -> str:
    """Return a text from outside without control characters (terminal escape codes) and without rich markup."""
    return escape(visible(text))


def visible(text: str) -> str:
    """Return a text from outside without control characters, such as those that begin terminal escape codes."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
