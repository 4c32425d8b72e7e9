"""Reader of SWE-bench's predictions (https://www.swebench.com): a list, lines or an object of `instance_id` and `model_patch`.

Reports of the evaluation beside them, such as `MODEL.RUN.json` and `results/results.json`, are the scores: 1 for a resolved issue. Files
of SWE-agent and mini-SWE-agent beside them, such as `ID/ID.traj.json` and `trajs/ID.traj`, are the trajectories. A patch is the text.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from regrade.exchange.importing.base import (
    ImportedRow,
    ImportedSet,
    OriginalScore,
    Reported,
    RowScore,
    TableOptions,
)
from regrade.exchange.importing.files import SourceFile
from regrade.exchange.importing.messages import Conversation, conversation, read_messages, split
from regrade.exchange.importing.record import Json, Record
from regrade.exchange.importing.rewards import numbered
from regrade.records.characters import whole_characters

COLUMNS = frozenset({"instance_id", "model_patch"})
_SCORE = "resolved"
_TRAJECTORIES = (
    *("{0}/{0}.traj.json", "{0}/{0}.traj", "trajs/{0}.traj", "trajs/{0}.json"),
    *("trajs/{0}.traj.json", "trajs/{0}/{0}.traj.json", "trajs/{0}/{0}.traj"),
)


@dataclass(frozen=True, slots=True)
class _Report:
    """Results of an evaluation."""

    run: str
    resolved: frozenset[str]
    submitted: frozenset[str] | None
    """Instances that were evaluated; None: the report does not list them."""
    total: int | None


def is_predictions(document: Json) -> bool:
    """Return True for an object of predictions by instance."""
    first = next(iter(document.values()), None) if isinstance(document, dict) else None
    return isinstance(first, dict) and first.keys() >= COLUMNS


def is_report(document: Json) -> bool:
    """Return True for the report of an evaluation, which is read with its predictions."""
    return isinstance(document, dict) and (
        {"resolved_ids", "submitted_ids"} <= document.keys()
        or {"resolved", "no_generation"} <= document.keys()
    )


def is_part(file: SourceFile) -> bool:
    """Return True for a report."""
    return file.kind == "json" and is_report(file.document)


def read(file: SourceFile, _: TableOptions) -> list[ImportedSet]:
    """Read the predictions of each model.

    Raises:
        ImportFileError: If a prediction has no instance, or a trajectory cannot be read.
    """
    if is_part(file):
        raise file.error("a report has no answers. Import the predictions beside it.")
    groups: dict[str | None, list[Record]] = {}
    for record in _records(file):
        groups.setdefault(record.text("model_name_or_path"), []).append(record)
    return [_set(file, model, records) for model, records in groups.items()]


def _records(file: SourceFile) -> Sequence[Record]:
    if file.kind == "json" and isinstance(file.document, dict):
        return [file.record(value, row) for row, value in enumerate(file.document.values())]
    return file.rows


def _set(file: SourceFile, model: str | None, records: list[Record]) -> ImportedSet:
    reports = list(_reports(file, model, frozenset(map(_instance, records))))
    names = [_SCORE if len(reports) == 1 else f"{_SCORE} ({report.run})" for report in reports]
    scores = dict(zip(names, reports, strict=True))
    rows = [
        _row(file, index, repeat, record, scores)
        for index, repeat, record in numbered(records, _instance)
    ]
    return ImportedSet(
        rows,
        model=model,
        benchmark="swe-bench",
        n_samples=max((report.total or 0 for report in reports), default=0) or None,
        format="chat" if any(row.trajectory for row in rows) else None,
        originals=tuple(OriginalScore(name, _reported(report)) for name, report in scores.items()),
    )


def _instance(record: Record) -> str:
    return whole_characters(str(record.need("instance_id")))


def _reported(report: _Report) -> Reported | None:
    if not report.total or len(report.resolved) > report.total:
        return None
    return Reported(len(report.resolved) / report.total, n=report.total)


def _row(
    file: SourceFile, index: int, repeat: int, record: Record, scores: Mapping[str, _Report]
) -> ImportedRow:
    identity = _instance(record)
    did = _trajectory(file, identity)
    return ImportedRow(
        index=index,
        repeat=repeat,
        content=identity,
        target=None,
        question=did.question or identity,
        prompt=did.prompt,
        prompt_kind="messages",
        text=record.text("model_patch") or "",
        trajectory=did.trajectory or None,
        images=did.images,
        scores={
            name: RowScore(float(identity in report.resolved))
            for name, report in scores.items()
            if report.submitted is None or identity in report.submitted
        },
    )


def _reports(file: SourceFile, model: str | None, ids: frozenset[str]) -> Iterator[_Report]:
    """Yield the reports beside the predictions that are about this model and these instances."""
    prefix = f"{(model or '').replace('/', '__')}."
    for path in sorted(file.path.parent.glob("*.json")):
        if path.name.startswith(prefix) and path != file.path and (part := file.part(path.name)):
            yield from _report(part, path.name.removeprefix(prefix).removesuffix(".json"), ids)
    published = file.part("results", "results.json")
    if published is not None:
        yield from _report(published, "results", ids)


def _report(part: SourceFile, run: str, ids: frozenset[str]) -> Iterator[_Report]:
    document = part.document
    if not is_report(document):
        return
    record = part.record(document)
    resolved = frozenset(record.texts("resolved_ids") or record.texts("resolved") or ())
    submitted = record.texts("submitted_ids")
    if submitted is not None and not ids & frozenset(submitted):
        return
    yield _Report(
        run,
        resolved,
        None if submitted is None else frozenset(submitted),
        record.integer("total_instances"),
    )


def _trajectory(file: SourceFile, identity: str) -> Conversation:
    """Return what the agent did, as SWE-agent (`history`) or mini-SWE-agent (`messages`) stored it."""
    for pattern in _TRAJECTORIES:
        part = file.part(*pattern.format(identity).split("/")) if "/" not in identity else None
        if part is None:
            continue
        record = part.record(part.row_document)
        listed = record.get("messages") or record.get("history")
        if isinstance(listed, list) and listed:
            return conversation(*split(read_messages(listed, record)))
    return conversation((), ())
