"""A random sample of answers in MLflow, where people give feedback on them, and that feedback as labels."""

from collections.abc import Sequence

from regrade.judging.labels.sheet import LABEL, SheetRow, column_of, refused
from regrade.judging.labels.stored import Label
from regrade.judging.labels.task import LabelTask
from regrade.settings.errors import SettingsError
from regrade.tracking.connection import public_uri
from regrade.tracking.traces import (
    Feedback,
    SampledTraces,
    TracedAnswer,
    TracedFeedback,
    log_traces,
    read_traces,
)

MOST = 1000
"""Most answers of a sample: each is a request, and people do not grade more on MLflow's pages."""


def trace_sample(
    uri: str, tasks: Sequence[LabelTask], scorer: str, size: int, seed: int, *, show_verdict: bool
) -> SampledTraces:
    """Log a random sample as traces; those that are there stay.

    Args:
        uri: MLflow tracking URI.
        tasks: The answers, once for each field that is labelled.
        scorer: Name of what gave the verdicts.
        size: Number of answers.
        seed: Seed of the sample.
        show_verdict: Add the verdicts, with which people then tend to agree.

    Raises:
        SettingsError: If the sample is too large, or the questions must not be published.
        TrackingError: If MLflow cannot be reached.
    """
    task = tasks[0]
    manifest = task.answers.manifest
    if size > MOST:
        raise SettingsError(f"`--sample {size}` should be at most {MOST:,} for `--to-mlflow`.")
    if manifest.withheld:
        raise SettingsError(
            f"The questions of '{manifest.specification.title}' must not be published, and MLflow would show them: label a "
            "sheet instead (`--out labels.csv`)."
        )
    answers = [
        TracedAnswer(
            *item.key,
            question=item.question or "",
            answer=item.answer,
            target=item.target,
            verdict=item.verdict if show_verdict else None,
        )
        for item in task.sample(size, seed)
    ]
    return log_traces(
        uri,
        manifest.answer_set_id,
        answers,
        seed=seed,
        scorer=scorer,
        judge=task.verdicts.run is not None,
        expected="; ".join(f"{column_of(LABEL, each)}: {each.expected}" for each in tasks),
    )


def labels_in_mlflow(
    uri: str, tasks: Sequence[LabelTask], rater: str | None
) -> tuple[list[SheetRow], TracedFeedback]:
    """Return the labels that people gave as feedback, as rows of a sheet, and what they are of.

    Args:
        uri: MLflow tracking URI.
        tasks: The answers, once for each field that is labelled.
        rater: Name for feedback whose author MLflow does not know.

    Raises:
        SettingsError: If there are no traces, or feedback is no label, or has no author.
        TrackingError: If MLflow cannot be reached.
    """
    answer_set = tasks[0].answers.manifest.answer_set_id
    found = read_traces(uri, answer_set)
    if found is None:
        raise SettingsError(
            f"MLflow at {public_uri(uri)} has no traces of answer set '{answer_set}': `regrade label {answer_set} --to-mlflow` "
            "makes them of a random sample."
        )
    rows: list[SheetRow] = []
    problems: list[str] = []
    by_column = {column_of(LABEL, task): task for task in tasks}
    for given in found.given:
        if (task := by_column.get(given.name)) is None:
            continue  # feedback about something else
        try:
            rows.append(_row(given, task, rater, found.seed))
        except SettingsError as error:
            problems.append(
                f"sample '{given.sample_id}', repeat {given.repeat}: {error}".rstrip(".")
            )
    if problems:
        raise refused(public_uri(uri), problems)
    return rows, found


def _row(given: Feedback, task: LabelTask, rater: str | None, seed: int) -> SheetRow:
    key = (given.sample_id, given.repeat)
    if key not in task.items:
        raise SettingsError("the answer set has no such answer any more")
    name = given.person or " ".join((rater or "").split())
    if not name:
        raise SettingsError("MLflow does not know who gave it: name the person with `--rater`")
    label, value = task.read(key, _text(given.value, task))
    return SheetRow(Label(key, label, value, name), task.field, seed)


def _text(value: object, task: LabelTask) -> str:
    """Return feedback as people would write it; yes and no of MLflow's switch are the labels of 1 and 0."""
    if isinstance(value, bool):
        labels = {number: label for label, number in task.verdicts.scheme.labels.items()}
        return labels.get(float(value), str(value))
    return str(value).removesuffix(".0")
