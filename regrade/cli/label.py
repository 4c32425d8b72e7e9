"""`regrade label`."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.rule import Rule
from rich.text import Text

from regrade.answers.sets import list_sets
from regrade.cli.options import Answers
from regrade.cli.output import TABLE, Output, open_answers
from regrade.cli.terminal import plain, print_table, stderr, stdout
from regrade.judging.bias import Bias, bias_of
from regrade.judging.labels.calibrate import labelled_elsewhere
from regrade.judging.labels.calibrated import Calibrated, calibrated
from regrade.judging.labels.importing import labels_of_rows, new_labels, store_labels
from regrade.judging.labels.journal import Journal
from regrade.judging.labels.keys import BACK, COMMANDS, QUIT, SKIP, label_keys
from regrade.judging.labels.sheet import LABEL, column_of, read_sheet, sheet_size, write_sheet
from regrade.judging.labels.stored import Label
from regrade.judging.labels.task import Item, LabelTask, open_tasks
from regrade.judging.labels.text import calibration_lines, confusion_columns, confusion_rows
from regrade.results.bias import bias_lines
from regrade.settings.errors import SettingsError
from regrade.text.text import visible

SAMPLE = 200
"""Answers of a sample, if `--sample` does not say."""


def label(
    answer_set: str,
    *,
    answers: Answers = None,
    sample: int | None = None,
    seed: int = 0,
    out: Path | None = None,
    show_verdict: bool = False,
    read: Path | None = None,
    rater: str | None = None,
    revise: bool = False,
    report: bool = False,
    scorer: str | None = None,
    output: Output = TABLE,
) -> None:
    """Label answers by hand, and compare the verdicts of a judge or a scorer with the labels.

    Without `--out`, `--read` and `--report`, it shows the answers of a random sample one by one in the terminal. Labels are
    stored beside the answers; every table then shows the figure that they correct. If verdicts have several fields, such as
    accuracy and style, each is labelled.

    Args:
        answer_set: Id of the judge's answer set, or of any other; the first digits are enough.
        sample: Answers of the random sample; 200 if not given.
        seed: Seed of the sample. Answer sets with the same questions get the same ones for the same seed.
        out: Write the sample as CSV, to label it in a spreadsheet (column `label`; `label_NAME` for each of several fields).
        show_verdict: Also show the verdict, with which people then tend to agree.
        read: Read labels from such a CSV file.
        rater: Name of the person who labels; with `--read`, for rows whose column `rater` is empty.
        revise: Let new labels replace those that the same person gave before.
        report: Only show agreement and the corrected figure.
        scorer: Scorer whose verdicts are compared; the first of the answer set if not given.
    """
    _check(sample, seed, [out is not None, read is not None, report])
    repository, revision = open_answers(answers)
    entry = list_sets(repository, revision, answer_set_id=answer_set)[0]
    tasks = open_tasks(entry, scorer)
    items = tasks[0].items
    if not items:
        raise SettingsError(f"No answer of '{entry.manifest.answer_set_id}' has a verdict.")
    size = min(sample or SAMPLE, len(items))
    if out is not None:
        _write(out, tasks, size, seed, show_verdict=show_verdict, output=output)
        return
    if read is not None:
        rows = read_sheet(read, tasks, rater)
        labels = [
            new_labels(
                labels_of_rows([r for r in rows if r.field == task.field]), task, revise=revise
            )
            for task in tasks
        ]
        drawn = next((row.seed for row in rows if row.seed is not None), None)
        for task, new in zip(tasks, labels, strict=True):
            _store(new, task, drawn, sheet_size(read, tasks))
        stderr.print(f"{sum(map(len, labels)):,} new labels of {len(rows):,} in the sheet")
    elif not report:
        _ask(tasks, size, seed, rater, show_verdict=show_verdict)
    _show_report(entry.manifest.answer_set_id, answers, scorer, output)


def _check(sample: int | None, seed: int, actions: Sequence[bool]) -> None:
    if sample is not None and sample < 1:
        raise SettingsError(f"`--sample {sample}` should be at least 1.")
    if seed < 0:
        raise SettingsError(f"`--seed {seed}` should be 0 or more.")
    if sum(actions) > 1:
        raise SettingsError("Give one of `--out`, `--read` and `--report`, not several.")


def _write(
    path: Path,
    tasks: Sequence[LabelTask],
    size: int,
    seed: int,
    *,
    show_verdict: bool,
    output: Output,
) -> None:
    task = tasks[0]
    written = write_sheet(path, tasks, task.sample(size, seed), seed, show_verdict=show_verdict)
    set_id = task.answers.manifest.answer_set_id
    columns = " and ".join(f"the column `{column_of(LABEL, t)}` with {t.expected}" for t in tasks)
    facts = {"answer_set_id": set_id, "path": str(path), "answers": written}

    def draw() -> None:
        stdout.print(
            plain(
                f"{path}: {written:,} of {len(task.items):,} answers, drawn with seed {seed}. Fill {columns}; "
                "leave a cell empty if you cannot tell. Then: "
                f"regrade label {set_id} --answers {shlex.quote(task.answers.repository.uri)} --read {shlex.quote(str(path))} --rater NAME"
            )
        )

    output.show(facts, draw)


def _store(labels: Sequence[Label], task: LabelTask, seed: int | None, size: int) -> None:
    if labels:
        store_labels(labels, task, seed, size)


def _show_report(answer_set: str, answers: str | None, scorer: str | None, output: Output) -> None:
    """Show what all stored labels say, at the newest revision."""
    repository, revision = open_answers(answers)
    entry = list_sets(repository, revision, answer_set_id=answer_set)[0]
    tasks = open_tasks(entry, scorer)
    found, *others = (
        calibrated(task.verdicts, task.labels, labelled_elsewhere(task.verdicts)) for task in tasks
    )
    found = found.with_fields(
        {task.name: other for task, other in zip(tasks[1:], others, strict=True)}
    )
    bias = bias_of(entry, tasks[0].table)
    document = {
        "answer_set_id": answer_set,
        "revision": revision,
        **found.model_dump(mode="json"),
        "bias": None if bias is None else bias.model_dump(mode="json"),
    }
    output.show(document, lambda: _draw(found, bias, tasks[0].name))


def _draw(found: Calibrated, bias: Bias | None, name: str) -> None:
    if name:
        stdout.print(plain(f"{name}:"))
    for line in calibration_lines(found):
        stdout.print(plain(line))
    if bias is not None:
        for line in (*([bias.family] if bias.family else []), *bias_lines(bias, found.scale)):
            stdout.print(plain(line))
    if found.agreement is not None:
        print_table(
            confusion_columns(found.agreement), confusion_rows(found.agreement), text=("verdict",)
        )
    for field, other in found.fields.items():
        stdout.print()
        _draw(other, None, field)


def _ask(
    tasks: Sequence[LabelTask], size: int, seed: int, rater: str | None, *, show_verdict: bool
) -> None:
    """Show the answers of a sample one by one and store the labels."""
    if not sys.stdin.isatty():
        raise SettingsError(
            "Labelling one by one needs a terminal. `--sample 200 --out labels.csv` writes a sheet, `--read labels.csv` reads "
            "it back, `--report` shows the agreement."
        )
    if rater is None or not rater.split():
        raise SettingsError("Name the person who labels with `--rater NAME`.")
    name = " ".join(rater.split())
    with ExitStack() as stack:
        journals = [stack.enter_context(Journal(task, name)) for task in tasks]
        if kept := sum(len(journal.labels) for journal in journals):
            stderr.print(f"{kept:,} labels of an interrupted session are kept")
        sampled = tasks[0].sample(size, seed)
        steps = [
            _Step(item, f"{place} of {len(sampled)}", task, journal)
            for place, item in enumerate(sampled, start=1)
            for task, journal in zip(tasks, journals, strict=True)
            if item.key not in journal.labels and (item.key, name) not in task.labels.latest
        ]
        try:
            _loop(steps, name, show_verdict=show_verdict)
        finally:
            stderr.print(f"{sum(len(journal.labels) for journal in journals):,} new labels")
        for task, journal in zip(tasks, journals, strict=True):
            labels = new_labels(list(journal.labels.values()), task, revise=True)
            _store(labels, task, seed, size)
            journal.clear()


@dataclass(frozen=True, slots=True)
class _Step:
    """A label to ask for: of an answer, by a field of the verdict."""

    item: Item
    place: str
    task: LabelTask
    journal: Journal


def _loop(steps: Sequence[_Step], rater: str, *, show_verdict: bool) -> None:
    at = 0
    shown: Item | None = None
    while at < len(steps):
        step = steps[at]
        item, task = step.item, step.task
        if item is not shown:
            _print_item(task, item, step.place)
            shown = item
        if show_verdict:
            verdict = f"{task.items[item.key].verdict:g}"
            stderr.print(plain(f"{task.name} verdict: {verdict}".strip()), style="yellow")
        keys = label_keys(task.offered)
        reply = _reply(f"{task.name} {_choices(task, keys)} ".lstrip())
        if reply == QUIT:
            return
        if reply in (SKIP, BACK):
            at = at + 1 if reply == SKIP else max(0, at - 1)
            continue
        try:
            label, value = task.read(item.key, keys.get(reply, reply))
        except SettingsError as error:
            stderr.print(plain(str(error)), style="red")
            continue
        step.journal.add(Label(item.key, label, value, rater, datetime.now(UTC)))
        at += 1


def _choices(task: LabelTask, keys: Mapping[str, str]) -> str:
    """Return what a person can type."""
    asked = ", ".join(f"{key} {name}" for key, name in ({**keys, **COMMANDS}).items())
    return f"[{asked}]" if keys else f"[{task.expected}, {asked}]"


def _reply(prompt: str) -> str:
    """Return the person's input in lower case; `QUIT` at the end of the input."""
    stderr.print(plain(prompt), end="")
    line = sys.stdin.readline()
    return line.strip().lower() if line else QUIT


def _print_item(task: LabelTask, item: Item, place: str) -> None:
    """Print an answer without control characters; texts of models are untrusted."""
    title = f"{place} · {item.key[0]} repeat {item.key[1]}"
    stderr.print(Rule(plain(title), align="left"))
    for name, text in (("question", item.question), ("reference", item.target)):
        if text:
            stderr.print(Text(f"{name}: {visible(text)}", "dim"))
    stderr.print(Text(visible(item.answer)))
    if task.pairs:
        return  # the pages tell whose answer is which
    address = task.address(item.key)
    command = f"regrade view {task.answers.repository.uri} {task.answers.manifest.answer_set_id}"
    stderr.print(plain(address or f"in a browser: {command}"), style="dim", soft_wrap=True)
