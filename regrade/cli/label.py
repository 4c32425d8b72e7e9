"""`regrade label`."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.rule import Rule
from rich.text import Text

from regrade.answers.sets import list_sets
from regrade.cli.options import Answers
from regrade.cli.output import TABLE, Output, open_answers
from regrade.cli.terminal import plain, print_table, stderr, stdout
from regrade.errors import SettingsError
from regrade.judging.bias import Bias, bias_of
from regrade.labels.calibrate import labelled_elsewhere
from regrade.labels.calibrated import Calibrated, calibrated
from regrade.labels.importing import labels_of_rows, new_labels, store_labels
from regrade.labels.journal import Journal
from regrade.labels.keys import BACK, COMMANDS, QUIT, SKIP, label_keys
from regrade.labels.sheet import read_sheet, sheet_size, write_sheet
from regrade.labels.stored import Label
from regrade.labels.task import Item, LabelTask, open_task
from regrade.reporting.bias import bias_lines
from regrade.reporting.labels import calibration_lines, confusion_columns, confusion_rows
from regrade.reporting.text import visible

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
    stored beside the answers; every table then shows the figure that they correct.

    Args:
        answer_set: Id of the judge's answer set, or of any other; the first digits are enough.
        sample: Answers of the random sample; 200 if not given.
        seed: Seed of the sample. Answer sets with the same questions get the same ones for the same seed.
        out: Write the sample as CSV, to label it in a spreadsheet (column `label`).
        show_verdict: Also show the verdict, which leads people.
        read: Read labels from such a CSV file.
        rater: Name of the person who labels; for `--read` only where the column `rater` is empty.
        revise: Let new labels replace those that the same person gave before.
        report: Only show agreement and the corrected figure.
        scorer: Scorer whose verdicts are compared; the first of the answer set if not given.
    """
    _check(sample, seed, [out is not None, read is not None, report])
    repository, revision = open_answers(answers)
    entry = list_sets(repository, revision, answer_set_id=answer_set)[0]
    task = open_task(entry, scorer)
    if not task.items:
        raise SettingsError(f"No answer of '{entry.manifest.answer_set_id}' has a verdict.")
    size = min(sample or SAMPLE, len(task.items))
    if out is not None:
        _write(out, task, size, seed, show_verdict=show_verdict, output=output)
        return
    if read is not None:
        rows = read_sheet(read, task, rater)
        labels = new_labels(labels_of_rows(rows), task, revise=revise)
        drawn = next((row.seed for row in rows if row.seed is not None), None)
        _store(labels, task, drawn, sheet_size(read))
        stderr.print(f"{len(labels):,} new labels of {len(rows):,} in the sheet")
    elif not report:
        _ask(task, size, seed, rater, show_verdict=show_verdict)
    _show_report(entry.manifest.answer_set_id, answers, scorer, output)


def _check(sample: int | None, seed: int, actions: Sequence[bool]) -> None:
    if sample is not None and sample < 1:
        raise SettingsError(f"`--sample {sample}` should be at least 1.")
    if seed < 0:
        raise SettingsError(f"`--seed {seed}` should be 0 or more.")
    if sum(actions) > 1:
        raise SettingsError("Give one of `--out`, `--read` and `--report`, not several.")


def _write(
    path: Path, task: LabelTask, size: int, seed: int, *, show_verdict: bool, output: Output
) -> None:
    written = write_sheet(path, task, task.sample(size, seed), seed, show_verdict=show_verdict)
    set_id = task.answers.manifest.answer_set_id
    facts = {"answer_set_id": set_id, "path": str(path), "answers": written}

    def draw() -> None:
        stdout.print(
            plain(
                f"{path}: {written:,} of {len(task.items):,} answers, drawn with seed {seed}. Fill the column `label` with "
                f"{task.expected}; leave it empty if you cannot tell. Then: "
                f"regrade label {set_id} --answers {task.answers.repository.uri} --read {path} --rater NAME"
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
    task = open_task(entry, scorer)
    found = calibrated(task.verdicts, task.labels, labelled_elsewhere(task.verdicts))
    bias = bias_of(entry, task.table)
    document = {
        "answer_set_id": answer_set,
        "revision": revision,
        **found.model_dump(mode="json"),
        "bias": None if bias is None else bias.model_dump(mode="json"),
    }
    output.show(document, lambda: _draw(found, bias))


def _draw(found: Calibrated, bias: Bias | None) -> None:
    for line in calibration_lines(found):
        stdout.print(plain(line))
    if bias is not None:
        for line in (*([bias.family] if bias.family else []), *bias_lines(bias, found.scale)):
            stdout.print(plain(line))
    if found.agreement is not None:
        print_table(
            confusion_columns(found.agreement), confusion_rows(found.agreement), text=("verdict",)
        )


def _ask(task: LabelTask, size: int, seed: int, rater: str | None, *, show_verdict: bool) -> None:
    """Show the answers of a sample one by one and store the labels."""
    if not sys.stdin.isatty():
        raise SettingsError(
            "Labelling one by one needs a terminal. `--sample 200 --out labels.csv` writes a sheet, `--read labels.csv` reads "
            "it back, `--report` shows the agreement."
        )
    if rater is None or not rater.split():
        raise SettingsError("Name the person who labels with `--rater NAME`.")
    name = " ".join(rater.split())
    with Journal(task, name) as journal:
        if journal.labels:
            stderr.print(f"{len(journal.labels):,} labels of an interrupted session are kept")
        sampled = task.sample(size, seed)
        done = {key for key, by in task.labels.latest if by == name} | set(journal.labels)
        places = [place for place, item in enumerate(sampled) if item.key not in done]
        try:
            _loop(task, sampled, places, journal, name, show_verdict=show_verdict)
        finally:
            stderr.print(f"{len(journal.labels):,} new labels")
        labels = new_labels(list(journal.labels.values()), task, revise=True)
        _store(labels, task, seed, size)
        journal.clear()


def _loop(
    task: LabelTask,
    sampled: Sequence[Item],
    places: Sequence[int],
    journal: Journal,
    rater: str,
    *,
    show_verdict: bool,
) -> None:
    keys = label_keys(task.offered)
    asked = ", ".join(f"{key} {name}" for key, name in (keys | COMMANDS).items())
    prompt = f"[{asked}]" if keys else f"[{task.expected}, {asked}]"
    step = 0
    while step < len(places):
        item = sampled[places[step]]
        _print_item(task, item, f"{places[step] + 1} of {len(sampled)}", show_verdict=show_verdict)
        reply = _reply(f"{prompt} ")
        if reply == QUIT:
            return
        if reply in (SKIP, BACK):
            step = step + 1 if reply == SKIP else max(0, step - 1)
            continue
        try:
            label, value = task.read(item.key, keys.get(reply, reply))
        except SettingsError as error:
            stderr.print(plain(str(error)), style="red")
            continue
        journal.add(Label(item.key, label, value, rater, datetime.now(UTC)))
        step += 1


def _reply(prompt: str) -> str:
    """Return the person's input in lower case; `QUIT` at the end of the input."""
    stderr.print(plain(prompt), end="")
    line = sys.stdin.readline()
    return line.strip().lower() if line else QUIT


def _print_item(task: LabelTask, item: Item, place: str, *, show_verdict: bool) -> None:
    """Print an answer without control characters; texts of models are untrusted."""
    title = f"{place} · {item.key[0]} repeat {item.key[1]}"
    stderr.print(Rule(plain(title), align="left"))
    for name, text in (("question", item.question), ("reference", item.target)):
        if text:
            stderr.print(Text(f"{name}: {visible(text)}", "dim"))
    stderr.print(Text(visible(item.answer)))
    if show_verdict:
        stderr.print(plain(f"verdict: {item.verdict:g}"), style="yellow")
    address = task.address(item.key)
    command = f"regrade view {task.answers.repository.uri} {task.answers.manifest.answer_set_id}"
    stderr.print(plain(address or f"in a browser: {command}"), style="dim", soft_wrap=True)
