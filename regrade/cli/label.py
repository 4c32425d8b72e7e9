"""`regrade label`."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from regrade.answers.publishing import settled
from regrade.cli.command_list import command
from regrade.cli.options import Answers, TrackingUri
from regrade.cli.output import TABLE, Output, open_set
from regrade.cli.terminal import stderr, stdout
from regrade.judging.bias import bias_of
from regrade.judging.labels.calibrate import labelled_elsewhere
from regrade.judging.labels.calibrated import calibrated
from regrade.judging.labels.importing import new_labels, store_labels
from regrade.judging.labels.sheet import (
    LABEL,
    SheetRow,
    column_of,
    read_sheet,
    sheet_size,
    write_sheet,
)
from regrade.judging.labels.task import LabelTask, open_tasks
from regrade.judging.labels.text import blocks
from regrade.judging.labels.traced import labels_in_mlflow, trace_sample
from regrade.results.bias import bias_lines
from regrade.settings.errors import SettingsError
from regrade.text.text import visible
from regrade.tracking.connection import default_tracking_uri, public_uri
from regrade.tracking.traces import SampledTraces

SAMPLE = 200
"""Answers of a sample, if `--sample` does not say."""


@command(group="Grade and read", noun="judges")
def label(
    answer_set: str,
    *,
    answers: Answers = None,
    sample: int | None = None,
    seed: int = 0,
    out: Path | None = None,
    show_verdict: bool = False,
    read: Path | None = None,
    to_mlflow: bool = False,
    from_mlflow: bool = False,
    rater: str | None = None,
    revise: bool = False,
    report: bool = False,
    scorer: str | None = None,
    tracking_uri: TrackingUri = None,
    output: Output = TABLE,
) -> None:
    """Label answers by hand, and compare the verdicts of a judge or a scorer with the labels.

    `--out` writes a random sample as a sheet for a spreadsheet, and `--read` stores its labels beside the answers; every table
    then shows the figure that they correct. `--to-mlflow` and `--from-mlflow` do the same with MLflow's own pages for reading and
    feedback. If verdicts have several fields, such as accuracy and style, each is labelled.

    Args:
        answer_set: Id of the judge's answer set, or of any other (the first digits are enough); model or alias.
        sample: Answers of the random sample; 200 if not given.
        seed: Seed of the sample. Answer sets with the same questions get the same ones for the same seed.
        out: Write the sample as CSV, to label it in a spreadsheet: column `label`, or `label_NAME` for each of several fields.
        show_verdict: Also write the verdict into the sheet, with which people then tend to agree.
        read: Read labels from such a CSV file.
        to_mlflow: Log the sample as traces to MLflow's experiment `regrade`; on its pages, people add feedback named `label`.
        from_mlflow: Read people's feedback on these traces as labels.
        rater: Name of the person who labels; with `--read` and `--from-mlflow`, where none is given.
        revise: Let new labels replace those that the same person gave before.
        report: Only show agreement and the corrected figure.
        scorer: Scorer whose verdicts are compared; the first of the answer set if not given.

    Examples:
        label 1f0c6a2b --sample 200 --out labels.csv
        label 1f0c6a2b --read labels.csv --rater ana
        label 1f0c6a2b --report
    """
    _check(sample, seed, [out is not None, read is not None, to_mlflow, from_mlflow, report])
    entry = open_set(answers, answer_set)
    tasks = open_tasks(entry, scorer)
    items = tasks[0].items
    if not items:
        raise SettingsError(f"No answer of '{entry.manifest.answer_set_id}' has a verdict.")
    size = min(sample or SAMPLE, len(items))
    if out is not None:
        _write(out, tasks, size, seed, show_verdict=show_verdict, output=output)
        return
    uri = tracking_uri or default_tracking_uri(entry.repository.uri)
    if to_mlflow:
        traced = trace_sample(
            uri, tasks, scorer or entry.manifest.scorers[0], size, seed, show_verdict=show_verdict
        )
        _show_traced(uri, tasks, traced, output)
        return
    if read is not None:
        _store(
            read_sheet(read, tasks, rater),
            tasks,
            sheet_size(read, tasks),
            "the sheet",
            revise=revise,
        )
    if from_mlflow:
        rows, found = labels_in_mlflow(uri, tasks, rater)
        _store(rows, tasks, found.size, "MLflow", revise=revise)
    _show_report(entry.manifest.answer_set_id, answers, scorer, output)


def _check(sample: int | None, seed: int, actions: Sequence[bool]) -> None:
    if sample is not None and sample < 1:
        raise SettingsError(f"`--sample {sample}` should be at least 1.")
    if not 0 <= seed < 10**15:  # spreadsheets round longer numbers
        raise SettingsError(f"`--seed {seed}` should be 0 or more, and below {10**15:,}.")
    if sum(actions) != 1:
        raise SettingsError(
            "Give one of `--out`, `--read`, `--to-mlflow`, `--from-mlflow` and `--report`: `--out labels.csv` writes a sheet of a "
            "random sample, `--read labels.csv` reads it back, `--report` shows the agreement."
        )


def _store(
    rows: Sequence[SheetRow], tasks: Sequence[LabelTask], size: int, place: str, *, revise: bool
) -> None:
    """Store labels that are not stored yet.

    Args:
        rows: Labels of a sheet or of MLflow.
        tasks: The labelled answers, once for each field.
        size: Answers of the sample.
        place: What they were read from.
        revise: New labels replace those that the same person gave before.
    """
    labels = [
        new_labels([r.given for r in rows if r.field == task.field], task, revise=revise)
        for task in tasks
    ]
    drawn = next((row.seed for row in rows if row.seed is not None), None)
    for task, new in zip(tasks, labels, strict=True):
        if new:
            store_labels(new, task, drawn, size)
        else:
            settled(task.answers.repository)
    stderr.print(f"{sum(map(len, labels)):,} new labels of {len(rows):,} in {place}")


def _show_traced(
    uri: str, tasks: Sequence[LabelTask], traced: SampledTraces, output: Output
) -> None:
    task = tasks[0]
    set_id = task.answers.manifest.answer_set_id
    columns = " and ".join(f"`{column_of(LABEL, t)}` with {t.expected}" for t in tasks)
    facts = {"answer_set_id": set_id, "traces": traced.total, "new": traced.new}
    text = (
        f"{traced.new:,} new traces in the experiment `regrade` of MLflow at {public_uri(uri)}, {traced.total:,} of this answer set in "
        f"all. Add feedback {columns} on its page of traces. Then: regrade label {set_id} --answers "
        f"{shlex.quote(task.answers.repository.uri)} --from-mlflow --rater NAME"
    )
    output.show(facts, lambda: stdout.print(visible(text)))


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
            visible(
                f"{path}: {written:,} of {len(task.items):,} answers, drawn with seed {seed}. Fill {columns}; "
                "leave a cell empty if you cannot tell. Then: "
                f"regrade label {set_id} --answers {shlex.quote(task.answers.repository.uri)} --read {shlex.quote(str(path))} --rater NAME"
            )
        )

    output.show(facts, draw)


def _show_report(answer_set: str, answers: str | None, scorer: str | None, output: Output) -> None:
    """Show what all stored labels say, at the newest revision."""
    entry = open_set(answers, answer_set)
    tasks = open_tasks(entry, scorer)
    found, *others = (
        calibrated(task.verdicts, task.labels, labelled_elsewhere(task.verdicts)) for task in tasks
    )
    found = found.with_fields(
        {task.name: other for task, other in zip(tasks[1:], others, strict=True)}
    )
    bias = bias_of(tasks[0].scored)
    document = {
        "answer_set_id": answer_set,
        "revision": entry.revision,
        **found.model_dump(mode="json"),
        "bias": None if bias is None else bias.model_dump(mode="json"),
    }
    signs = [] if bias is None else [*filter(None, [bias.family]), *bias_lines(bias, found.scale)]
    output.show(document, lambda: blocks(found, tasks[0].name, signs))
