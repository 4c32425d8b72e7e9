"""Terminal output: log lines and a progress bar on stderr, tables on stdout; other logs go to a file."""

import logging
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from regrade.cli.naming import NAMING
from regrade.processes.clock import process_began
from regrade.results.display import Display, Pace, log_scored
from regrade.scorers.user_functions.files import is_specification
from regrade.text.text import part_of, visible

if TYPE_CHECKING:
    from pydantic import BaseModel

    from regrade.jobs.generate import Progress as GenerationProgress
    from regrade.jobs.job import ScoringJob
    from regrade.results.results import Evaluation
    from regrade.text.blocks import Block


class _Screen(Console):
    """Standard output. If nobody reads it any more (`regrade gate ... | head -1`), the command goes on to its exit code."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# Texts of others are printed as they are: `[bold]` and `:100:` in an answer stay.
stderr = Console(stderr=True, highlight=False, emoji=False, markup=False)
stdout = _Screen(highlight=False, soft_wrap=True, emoji=False, markup=False)
if not stdout.is_terminal:
    stdout = _Screen(  # a file or a pipe has no width
        highlight=False, soft_wrap=True, emoji=False, markup=False, width=200
    )


def log_to(path: Path, *, quiet: bool = False) -> None:
    """Show `regrade`'s log lines on stderr, and send all log lines to a file.

    Args:
        path: The file.
        quiet: Show only warnings and errors.
    """
    to_file = logging.FileHandler(path, delay=True)
    to_file.setFormatter(_Named("%(asctime)s %(levelname)s %(name)s %(message)s"))
    # a root handler with a formatter keeps Prefect's console handler away
    logging.getLogger().addHandler(to_file)
    logging.getLogger().setLevel(logging.INFO)
    logging.captureWarnings(capture=True)
    show_logs("regrade", quiet=quiet).addHandler(to_file)


def show_logs(name: str, *, quiet: bool = False) -> logging.Logger:
    """Show a logger's lines on stderr, only warnings and errors if `quiet`; return the logger."""
    logger = logging.getLogger(name)
    logger.setLevel(logging.INFO)
    for handler in [h for h in logger.handlers if isinstance(h, TerminalHandler)]:
        logger.removeHandler(handler)  # of another command in this process
    logger.addHandler(TerminalHandler(logging.WARNING if quiet else logging.INFO))
    return logger


class _Named(logging.Formatter):
    """Format of lines in which settings have the names under which this command was given them."""

    def __init__(self, form: str) -> None:
        super().__init__(form)
        self._named = NAMING.get()  # here, as other threads do not have it

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record; those of other libraries name no settings."""
        line = super().format(record)
        return self._named(line) if record.name.startswith("regrade") else line


class TerminalHandler(logging.Handler):
    """One line per record on stderr, above a progress bar if there is one."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self._named = NAMING.get()  # here, as other threads do not have it

    def emit(self, record: logging.LogRecord) -> None:
        """Print the record."""
        style = {logging.WARNING: "yellow", logging.ERROR: "red"}.get(record.levelno, "")
        line = f"{time.strftime('%H:%M:%S')} {visible(self._named(record.getMessage()))}"
        try:
            stderr.print(line, style=style, soft_wrap=not stderr.is_terminal)
        except OSError:  # such as a full disk under `2> file`, which is no reason to end a run
            self.handleError(record)


class _Done(MofNCompleteColumn):
    """Answers of all answers; nothing while an engine loads."""

    def render(self, task: Task) -> Text:
        """Return the text."""
        return Text() if task.total is None else super().render(task)


class _Seconds(TimeRemainingColumn):
    """Time that is left; while an engine loads, seconds that have passed."""

    def render(self, task: Task) -> Text:
        """Return the text."""
        if task.total is None:
            return Text(f"{task.elapsed or 0:.0f} s", style="progress.elapsed")
        return super().render(task)


class TerminalDisplay(Display):
    """Progress of loading and generating on stderr; no bar if `quiet`."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            _Done(),
            TextColumn("{task.fields[speed]}"),
            _Seconds(),
            console=stderr,
            transient=True,
            disable=quiet,
        )
        self._tasks: dict[str, int] = {}
        self._pace = Pace()
        self._log = logging.getLogger("regrade.generate")
        self.evaluation: Evaluation | None = None
        """The result; None until it is complete."""
        self.report: Callable[[str, Evaluation | None, str | None, bool], None] | None = None
        """Prints a model that came (`--follow`): its name, result and error, and whether it has ended."""
        self.show_published: Callable[[Evaluation], None] | None = None
        """Prints a result that is published, and not tracked yet."""
        self.verdicts: list[BaseModel] = []
        """Verdicts of the flow's gate."""
        self.begun: float | None = process_began()

    def published(self, evaluation: "Evaluation") -> None:
        """Print the result before it is tracked, which takes seconds."""
        if self.show_published is not None:
            self.show_published(evaluation)

    def finished(self, evaluation: "Evaluation") -> None:
        """Keep the result, to print it even if a later step fails."""
        self.evaluation = evaluation

    def judged(self, verdict: "BaseModel") -> None:
        """Keep the verdict of a gate, for report files."""
        self.verdicts.append(verdict)

    def came(self, model: str, error: str | None = None, *, ended: bool) -> None:
        """Print which model is evaluated now, or at its end its result and what failed."""
        if self.report is not None:
            self.report(model, self.evaluation, error, ended)
        self.evaluation = None

    def loading(self, what: str) -> None:
        """Show that the engine is loading."""
        self._log.info("loading %s", what)
        self._end_loading()  # of an engine that did not start
        self._tasks["loading"] = self._bar.add_task("loading: starting", total=None, speed="")

    def step(self, step: str) -> None:
        """Show a step of loading, with the seconds that have passed; without a terminal, as a line."""
        if not stderr.is_terminal:
            self._log.info("loading: %s", step)
        elif "loading" in self._tasks:
            self._bar.update(self._tasks["loading"], description=f"loading: {step}")  # type: ignore[arg-type]

    def loaded(self) -> None:
        """Remove the loading line."""
        self._end_loading()
        self._pace.start()

    def _end_loading(self) -> None:
        if "loading" in self._tasks:
            self._bar.remove_task(self._tasks.pop("loading"))  # type: ignore[arg-type]

    def advance(self, title: str, progress: "GenerationProgress") -> None:
        """Show the progress of an answer set."""
        speed = progress.speed_text
        self._update(title, progress.done, progress.total, speed.removeprefix(", "))
        if not stderr.is_terminal and self._pace.is_due():
            left = progress.seconds_left
            self._log.info(
                "%s: %s%s%s",
                title,
                part_of(progress.done, progress.total, "answer"),
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


def print_blocks(blocks: "Sequence[Block]") -> None:
    """Print a result on stdout."""
    # Only commands with results need this import.
    from regrade.text.terminal import TerminalWriter  # noqa: PLC0415

    TerminalWriter(stdout).write(blocks)


def print_next_steps(evaluation: "Evaluation", scoring: "ScoringJob | None" = None) -> None:
    """Print on stderr how the answers are read, and the command that most people run next.

    Args:
        evaluation: The result.
        scoring: What was asked for, if stored answers were scored: the steps are about its scorer and its answers.
    """
    repository = shlex.quote(evaluation.repository)
    usual = evaluation.repository == str(Path("answers").absolute())
    where, viewed = ("", "") if usual else (f" --answers {repository}", f" {repository}")
    command = Path(sys.executable).with_name("regrade")
    shown = "regrade" if shutil.which("regrade") else os.path.relpath(command)
    found = evaluation.answer_sets
    first = max(found, key=lambda a: (a.rows > 0, a.generated > 0 or "score" in a.seconds))
    first_id = first.answer_set_id
    judged = [a.answer_set_id for a in evaluation.answer_sets if a.judged is not None]
    is_scored = any(answers.scores for answers in evaluation.answer_sets)
    named = ""
    if is_scored and scoring is not None and scoring.scorer is not None:
        named = f" --scorer {shlex.quote(scoring.scorer)}"
    wrong = ("read wrong answers", f"{shown} show {first_id}{where}{named} --wrong")
    if judged and is_scored:
        check = f"{shown} label {judged[0]}{where} --rater YOUR_NAME"
        steps = [wrong, ("check the judge", check)]
    elif named and scoring is not None:
        from regrade.cli.job_options import words_of  # noqa: PLC0415 - only these steps need it

        same = words_of(scoring, {"answers", "scorer", "stale", "force"})
        chosen = "".join(f" {shlex.quote(word)}" for word in same)
        in_file = is_specification(str(scoring.scorer))  # a changed file is another version
        again = f"{shown} score{where}{chosen}{named}{'' if in_file else ' --force'}"
        steps = [wrong, ("after changing it" if in_file else "score them again", again)]
    elif is_scored:
        steps = [wrong, ("read in a browser", f"{shown} view{viewed} {first_id}")]
    else:
        read = f"{shown} show {first_id}{where}"
        steps = [("read the answers", read)]
        if any(answers.stopped is None for answers in found):
            steps.append(("score them", f"{shown} score{where}"))
    stderr.print()
    for purpose, step in steps:
        stderr.print(f"{purpose:<20} {step}", soft_wrap=True)
