"""Store people's labels beside the answers, one file for each import."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime

import pyarrow as pa

from regrade.answers.labelfile import LABEL_SCHEMA, LabelFile, publish_labels, sealed_labels
from regrade.judging.labels.sheet import first_of
from regrade.judging.labels.stored import Label
from regrade.judging.labels.task import LabelTask
from regrade.settings.errors import SettingsError


def new_labels(labels: Sequence[Label], task: LabelTask, *, revise: bool) -> list[Label]:
    """Return the labels that are not stored yet.

    Args:
        labels: Labels, one for each answer and rater.
        task: The answers that were labelled, with their stored labels.
        revise: Accept labels that differ from stored ones by the same person.

    Raises:
        SettingsError: If a label differs from a stored one.
    """
    new: list[Label] = []
    problems: list[str] = []
    for label in labels:
        stored = task.labels.latest.get((label.key, label.rater))
        if stored is not None and stored.label == label.label:
            continue
        if stored is not None and not revise:
            problems.append(
                f"'{label.rater}' labelled answer '{label.key[0]}', repeat {label.key[1]}, '{stored.label}' before, "
                f"and '{label.label}' now"
            )
        new.append(label)
    if problems:
        raise SettingsError(
            f"{first_of(problems)}. No label was stored. `--revise` stores the new labels, which then count."
        )
    return new


def store_labels(labels: Sequence[Label], task: LabelTask, seed: int | None, size: int) -> str:
    """Store labels in one commit and return its revision.

    Args:
        labels: At least one.
        task: The answers that were labelled.
        seed: Seed of the random sample that people labelled. None: they chose the answers.
        size: Size of the sample.
    """
    rows = [asdict(label) | {"sample_id": label.key[0], "repeat": label.key[1]} for label in labels]
    content, sha256 = sealed_labels(pa.Table.from_pylist(rows, LABEL_SCHEMA))
    record = LabelFile(
        answer_set_id=task.answers.manifest.answer_set_id,
        table_sha256=sha256,
        rows=len(rows),
        raters=tuple(sorted({label.rater for label in labels})),
        labels=dict(task.verdicts.scheme.labels),
        scale=task.verdicts.scheme.scale,
        sample=None if seed is None else task.drawn(size, seed),
        field=task.field,
        answers=task.answers.hashes,
        imported_at=datetime.now(UTC),
    )
    return publish_labels(task.answers, record, content)
