"""Terminal output: log lines and a progress bar on stderr, tables on stdout; other logs go to a file."""

import logging
import os
import shlex
import shutil
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
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

from regrade.results.display import Pace, log_scored
from regrade.text.layout import Kind, Table, layout
from regrade.text.text import visible

if TYPE_CHECKING:
    from regrade.jobs.generate import Progress as GenerationProgress
    from regrade.judging.panel_result import PanelResult
    from regrade.results.results import Evaluation

stderr = Console(stderr=True, highlight=False, emoji=False)
stdout = Console(highlight=False, soft_wrap=True, emoji=False)  # `:100:` in an answer stays
if not stdout.is_terminal:
    stdout = Console(
        highlight=False, soft_wrap=True, emoji=False, width=200
    )  # a file or a pipe has no width


def log_to(path: Path, *, quiet: bool = False) -> None:
    """Show `regrade`'s log lines on stderr, and send all log lines to a file.

    Args:
        path: The file.
        quiet: Show only warnings and errors.
    """
    to_file = logging.FileHandler(path, delay=True)
    to_file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    # a root handler with a formatter keeps Prefect's console handler away
    logging.getLogger().addHandler(to_file)
    logging.getLogger().setLevel(logging.INFO)
    logging.captureWarnings(capture=True)
    show_logs("regrade", quiet=quiet).addHandler(to_file)


def show_logs(name: str, *, quiet: bool = False) -> logging.Logger:
    """Show a logger's lines on stderr, only warnings and errors if `quiet`; return the logger."""
    logger = logging.getLogger(name)
    logger.setLevel(logging.INFO)
    logger.addHandler(TerminalHandler(logging.WARNING if quiet else logging.INFO))
    return logger


class TerminalHandler(logging.Handler):
    """One line per record on stderr, above a progress bar if there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the record."""
        style = {logging.WARNING: "yellow", logging.ERROR: "red"}.get(record.levelno, "")
        line = f"{time.strftime('%H:%M:%S')} {visible(record.getMessage())}"
        stderr.print(line, style=style, markup=False, soft_wrap=not stderr.is_terminal)


class TerminalDisplay:
    """Progress of loading and generating on stderr; no bar if `quiet`."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
            console=stderr,
            transient=True,
            disable=quiet,
        )
        self._tasks: dict[str, int] = {}
        self._pace = Pace()
        self._log = logging.getLogger("regrade.generate")
        self.evaluation: Evaluation | None = None
        """The result; None until it is complete."""

    def finished(self, evaluation: "Evaluation") -> None:
        """Keep the result, to print it even if a later step fails."""
        self.evaluation = evaluation

    def loading(self, what: str) -> None:
        """Show that the engine is loading."""
        self._log.info("loading %s", what)
        self._tasks["loading"] = self._bar.add_task(f"loading {what}", total=None, speed="")

    def loaded(self) -> None:
        """Remove the loading line."""
        self._bar.remove_task(self._tasks.pop("loading"))  # type: ignore[arg-type]
        self._pace.start()

    def advance(self, title: str, progress: "GenerationProgress") -> None:
        """Show the progress of an answer set."""
        speed = f"{progress.tokens_per_second:,.0f} tokens/s"
        self._update(title, progress.done, progress.total, speed)
        if not stderr.is_terminal and self._pace.is_due():
            left = progress.seconds_left
            self._log.info(
                "%s: %d of %d answers, %s%s",
                title,
                progress.done,
                progress.total,
                speed,
                "" if left is None else f", {left:.0f} s left",
            )

    def scoring(self, title: str, done: int, total: int) -> None:
        """Show the progress of a scorer that takes long."""
        self._update(title, done, total, "")
        if not stderr.is_terminal and self._pace.is_due():
            log_scored(title, done, total)

    def _update(self, title: str, done: int, total: int, speed: str) -> None:
        if title not in self._tasks:
            self._tasks[title] = self._bar.add_task(title, total=total, speed=speed)
        self._bar.update(self._tasks[title], completed=done, speed=speed)  # type: ignore[arg-type]

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the bar while the block runs, if there is a terminal."""
        if not stderr.is_terminal:
            yield
            return
        with self._bar:
            yield


def print_evaluation(evaluation: "Evaluation") -> None:
    """Print reasons to doubt a score on stderr, then the table of results on stdout."""
    # Only commands with results need this import, which takes 0.2 s.
    from regrade.results import bias, other_results, speeds  # noqa: PLC0415
    from regrade.results.tables import (  # noqa: PLC0415
        COST_COLUMNS,
        GENERATED_COLUMNS,
        GENERATED_TEXT,
        HEADINGS,
        REPEATS,
        TEXT_COLUMNS,
        captions,
        columns,
        cost_columns,
        cost_rows,
        generated_rows,
        notes,
        table_rows,
    )

    for benchmark, note in notes(evaluation):
        stderr.print(plain(f"{benchmark}: {note}"), style="yellow", soft_wrap=True)
    if rows := list(table_rows(evaluation)):
        names = columns(evaluation)
        text = (*TEXT_COLUMNS, REPEATS)
        print_table(names, rows, text=text, headings=HEADINGS, lists=text[-1:])
    if generated := list(generated_rows(evaluation)):
        print_table(GENERATED_COLUMNS, generated, text=GENERATED_TEXT, headings=HEADINGS)
    for caption in captions(evaluation):
        stdout.print(plain(caption), style="dim")
    if others := list(other_results.other_rows(evaluation)):
        stdout.print()
        print_table(other_results.COLUMNS, others, text=other_results.TEXT_COLUMNS)
    for benchmark, line in bias.evaluation_lines(evaluation):
        stdout.print(plain(f"{benchmark}: {line}"), soft_wrap=True)
    for panel in evaluation.panels:
        stdout.print()
        stdout.print(plain(f"{len(panel.judges)} judges, {panel.title}"), soft_wrap=True)
        print_panel(panel)
    if costs := list(cost_rows(evaluation)):
        stdout.print()
        print_table(cost_columns(evaluation), costs, text=COST_COLUMNS[:1])
    if latencies := list(speeds.short_rows(evaluation)):
        stdout.print()
        print_table(speeds.SHORT_COLUMNS, latencies, text=speeds.SHORT_COLUMNS[:1])
    for benchmark, line in speeds.remark_lines(evaluation):
        stdout.print(plain(f"{benchmark}: {line}"), soft_wrap=True)


def print_panel(panel: "PanelResult") -> None:
    """Print the tables of several judges on stdout: their means, alone and combined, and their agreement."""
    from regrade.judging.panel_text import (  # noqa: PLC0415 - as above
        AGREEMENT_COLUMNS,
        COLUMNS,
        agreement_rows,
        panel_rows,
    )

    print_table(COLUMNS, panel_rows(panel), text=COLUMNS[:1])
    stdout.print()
    print_table(AGREEMENT_COLUMNS, agreement_rows(panel), text=AGREEMENT_COLUMNS[:1])


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    text: Collection[str] | None = None,
    headings: Sequence[str] = (),
    lists: Collection[str] = (),
    settings: Sequence[str] = (),
) -> None:
    """Print a table without borders on stdout; nothing is cut at the width of a terminal. Empty columns are left out.

    Args:
        columns: Names of the columns.
        rows: Cells in the order of the columns; they may come from untrusted files.
        text: Columns with text, aligned left; the others hold numbers. None: all columns.
        headings: Columns that become lines above the rows if the table is too wide, in this order.
        lists: Columns whose cells may go over several lines, after each comma.
        settings: The first columns, if they become one if the table is too wide.
    """
    cells = [[" ".join(visible(cell).split("\n")) for cell in row] for row in rows]
    filled = [place for place, _ in enumerate(columns) if any(row[place] for row in cells)]
    columns = [columns[place] for place in filled]
    cells = [[row[place] for place in filled] for row in cells]
    headings, settings = (
        [name for name in given if name in columns] for given in (headings, settings)
    )
    table = Table(columns, cells, columns if text is None else text, headings, lists, settings)
    for line in layout(table, stdout.width if stdout.is_terminal else None):
        stdout.print(line.text, style=_STYLES[line.kind], markup=False)


def print_wrapped(text: str, style: str = "") -> None:
    """Print an untrusted text on stdout; on a terminal, a long line is broken between words."""
    stdout.print(plain(text), style=style, soft_wrap=not stdout.is_terminal)


_STYLES: dict[Kind, str] = {"columns": "bold", "heading": "cyan", "row": ""}


def print_next_steps(evaluation: "Evaluation") -> None:
    """Print commands for likely next steps on stderr."""
    repository = shlex.quote(evaluation.repository)
    usual = evaluation.repository == str(Path("answers").absolute())
    where, viewed = ("", "") if usual else (f" --answers {repository}", f" {repository}")
    command = Path(sys.executable).with_name("regrade")
    shown = "regrade" if shutil.which("regrade") else os.path.relpath(command)
    bin_folder = "" if shutil.which("mlflow") else os.path.relpath(command.parent) + "/"
    first = evaluation.answer_sets[0].answer_set_id
    if any(answers.scores for answers in evaluation.answer_sets):
        read = ("read wrong answers", f"{shown} show {first}{where} --wrong")
        grade = ("score them again", f"{shown} score{where} --force")
    else:
        read = ("read the answers", f"{shown} show {first}{where}")
        grade = ("score them", f"{shown} score{where}")
    steps = [read, ("read in a browser", f"{shown} view{viewed} {first}"), grade]
    uri, server = evaluation.tracking_uri or "", os.environ.get("PREFECT_API_URL")
    tracked_here = uri in ("", f"sqlite:///{Path.cwd()}/mlflow.db")  # "" after generating only
    if not server and Path("infra/ui.sh").is_file() and tracked_here:
        steps.append(("open all pages", "make ui"))  # with a login, and only for their own pages
    else:
        if uri.startswith("sqlite"):
            mlflow = f"{bin_folder}mlflow server --host 127.0.0.1 --backend-store-uri {uri}"
            steps.append(("open MLflow", mlflow))
        elif (page := evaluation.answer_sets[0].mlflow_url) is not None:
            steps.append(("open MLflow", page))
        ui = server.removesuffix("/api") if server else f"{bin_folder}prefect server start"
        steps.append(("open the Prefect UI", ui))
    judged = [a.answer_set_id for a in evaluation.answer_sets if a.judged is not None]
    if judged:
        steps.append(("check the judge", f"{shown} label {judged[0]}{where} --rater YOUR_NAME"))
    stderr.print()
    for purpose, step in steps:
        stderr.print(f"{purpose:<20} {step}", markup=False, soft_wrap=True)


def plain(text: str) -> str:
    """Return an untrusted text without control characters (terminal escape codes) and rich markup."""
    return escape(visible(text))
