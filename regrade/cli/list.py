"""`regrade list`."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from regrade.answers.aliases import aliases_by_set
from regrade.answers.figures import figures_in
from regrade.answers.result import Result
from regrade.answers.scorefile import ScoreFile
from regrade.answers.spool import interrupted
from regrade.cli.answer_filters import named_as_options
from regrade.cli.command_list import command
from regrade.cli.options import Answers
from regrade.cli.output import TABLE, Output, end_if_left_out, open_answers
from regrade.cli.terminal import print_blocks, stdout
from regrade.judging.labels.calibrate import calibrate
from regrade.judging.labels.calibrated import Calibrated
from regrade.pages.viewer.library import Library, Shelf, StoredSet
from regrade.pages.viewer.links import Links
from regrade.pages.viewer.set_list import Order, SetFilters, SetRow, set_list
from regrade.records.rubrics.facts import answers_per_question, judge_run
from regrade.records.rubrics.family import family_warning
from regrade.records.specification import named_apart
from regrade.stats.numbers import average_text, repeats_text
from regrade.text.blocks import Table
from regrade.text.text import visible

COLUMNS = ("answer set", "model", "benchmark", "scorer", "accuracy", "n")
MORE_COLUMNS = ("date", "differs in", "remarks")
HEADINGS = ("model", "benchmark")
SHOWN_MODELS = 20
"""Most models named if none of them matches."""
_Calibrations = Mapping[tuple[str, str], Calibrated | None]
"""By id of the answer set and label of the scoring."""
_TEXT = {*COLUMNS[:4], *MORE_COLUMNS, "with repeats"}


@command(group="Grade and read", name="list")
def list_answers(
    *,
    answers: Answers = None,
    model: str | None = None,
    benchmark: str | None = None,
    sort: Order = "date",
    ascending: bool = False,
    output: Output = TABLE,
) -> None:
    """List answer sets and their scores.

    Prints a row for each scoring, with the date and the settings in which the answer sets of a benchmark differ. Stale scores
    are marked, and of two versions of one scorer the current one; aliases are remarks. Damaged files are left out and named; the
    exit code is then 1.

    Args:
        model: Only models whose name contains this text, ignoring case.
        benchmark: Only this benchmark.
        sort: Order of the answer sets: newest, highest or largest first; names from A to Z.
        ascending: Reverse the order: oldest, lowest or smallest first; names from Z to A.

    Examples:
        list
        list --model org/model --benchmark gsm8k --sort accuracy
        list --json
    """
    repository, revision = open_answers(answers)
    shelf = Library(repository).shelf(revision)
    filters = SetFilters(q=model, benchmark=benchmark, sort=sort, ascending=ascending)
    with named_as_options():
        found = set_list(shelf, filters, Links(""))
    sets = found.rows
    damaged = [*shelf.damaged, *(error for stored in shelf.sets for error in stored.damaged)]
    aliases, unreadable = aliases_by_set(repository, revision)
    damaged += unreadable
    calibrations: _Calibrations = {
        (row.stored.id, file.label): calibrate(
            Result(row.stored.answers, file), on_damage=damaged.append
        )
        for row in sets
        for file in row.stored.scorings
    }
    damaged = list({str(error): error for error in damaged}.values())
    entries = [
        {**_entry(row, calibrations), "aliases": aliases.get(row.stored.id, [])} for row in sets
    ]

    def draw() -> None:
        if sets:
            _print(sets, shelf, aliases, calibrations)
        else:
            _print_unmatched(model, benchmark, shelf)
        count = "" if len(sets) == found.total else f"{len(sets)} of {found.total} answer sets in "
        stdout.print(f"{count}{visible(repository.uri)} at {revision}")

    document = {"repository": repository.uri, "revision": revision, "answer_sets": entries}
    output.show(document, draw, damaged)
    if waiting := interrupted(repository.uri):
        sys.stderr.write(
            f"regrade: answers of an interrupted run wait on this machine ({', '.join(waiting)}): the same command goes on with them, "
            "`regrade publish` publishes them\n"
        )
    end_if_left_out(damaged)


def _print_unmatched(model: str | None, benchmark: str | None, shelf: Shelf) -> None:
    """Print that no set has such a model, and the models of the benchmark, if one is given."""
    known = sorted({s.model for s in shelf.sets if benchmark in (None, s.benchmark)})
    if not known:
        stdout.print("No answer sets.")
        return
    more = f" and {len(known) - SHOWN_MODELS} more" if len(known) > SHOWN_MODELS else ""
    names = f"{', '.join(known[:SHOWN_MODELS])}{more}"
    stdout.print(
        f"No answer set matches `--model {visible(model or '')}`. Models: {visible(names)}."
    )


def _print(
    sets: Sequence[SetRow],
    shelf: Shelf,
    aliases: Mapping[str, Sequence[str]],
    calibrations: _Calibrations,
) -> None:
    models: dict[str, set[str | None]] = {}
    for stored in shelf.sets:
        model = stored.answers.manifest.specification.model
        models.setdefault(model.name, set()).add(model.revision)
    repeated = any(answers_per_question(row.stored.manifest.specification) > 1 for row in sets)
    figures = [figure.heading for figure in figures_in("list")]
    columns = (*COLUMNS, *(["with repeats"] if repeated else []), *figures, *MORE_COLUMNS)
    rows = [
        cells
        for row in sets
        for cells in _rows(row, models, repeated, aliases.get(row.stored.id, ()), calibrations)
    ]
    lists = ("scorer", "differs in", "remarks", "with repeats")
    print_blocks([Table(columns, rows, _TEXT, headings=HEADINGS, lists=lists)])


def _rows(
    row: SetRow,
    models: dict[str, set[str | None]],
    repeated: bool,
    aliases: Sequence[str],
    calibrations: _Calibrations,
) -> Iterator[tuple[str, ...]]:
    """Yield a row for each scoring; one row for a set without any."""
    stored, manifest = row.stored, row.stored.manifest
    model = manifest.specification.model
    name = named_apart(model.name, model.revision, models[model.name])
    run = judge_run(manifest.specification)
    if run is not None and run.judged is not None:
        name = f"{run.judged.model} (judge {name})"
    apart = ", ".join(f"{setting}={value}" for setting, value in row.apart.items())
    state = [f"alias {name}" for name in aliases]
    state += [manifest.answered] if manifest.state != "complete" else []
    state += [f"{manifest.refused:,} refused"] if manifest.refused else []
    state += [f"mixed: {'; '.join(manifest.mixed)}"] if manifest.mixed else []
    state += [f"refused by the server: {', '.join(manifest.not_sent)}"] if manifest.not_sent else []
    date = f"{manifest.updated_at:%Y-%m-%d}"
    repeats = answers_per_question(manifest.specification)
    for file in stored.scorings or (None,):
        if file is None:
            result = ("", "", "", *([""] if repeated else []))
            notes = ["damaged" if stored.damaged else "not scored", *state]
        else:
            overall, calibrated = file.summary.overall, calibrations[stored.id, file.label]
            result = (
                file.title,
                average_text(overall.accuracy, overall.accuracy_stderr, repeats, scale=file.scale),
                f"{overall.n:,}",
                *([repeats_text(file.summary.averages(), repeats)] if repeated else []),
            )
            notes = [
                "" if calibrated is None else calibrated.text,
                "judge of one family" if family_warning(manifest.specification) else "",
                stored.mark(file),
                file.intact_only or ("stale" if file.label in stored.stale else ""),
                *state,
            ]
        yield (
            stored.id,
            name,
            stored.benchmark,
            *result,
            *(figure.text(figure.of(manifest, file)) for figure in figures_in("list")),
            date,
            apart,
            ", ".join(filter(None, notes)),
        )


def _entry(row: SetRow, calibrations: _Calibrations) -> dict[str, Any]:
    """Return the entry of an answer set in the JSON document."""
    stored, manifest = row.stored, row.stored.manifest
    run = judge_run(manifest.specification)
    return {
        "answer_set_id": manifest.answer_set_id,
        "model": manifest.specification.model.name,
        "benchmark": manifest.specification.benchmark.name,
        "rows": manifest.rows,
        "expected_rows": manifest.expected,
        "failed": manifest.failed,
        "refused": manifest.refused,
        "judged": run.judged.model if run is not None and run.judged is not None else None,
        "repeats": answers_per_question(manifest.specification),
        "complete": manifest.state == "complete",
        "stopped": manifest.stopped and manifest.stopped.model_dump(mode="json"),
        **stored.figures,
        "created_at": manifest.created_at.isoformat(timespec="seconds"),
        "updated_at": manifest.updated_at.isoformat(timespec="seconds"),
        "differs_in": row.apart,
        "settings": manifest.specification.model_dump(mode="json"),
        "scores": [
            _score(file, stored, calibrations[stored.id, file.label]) for file in stored.scorings
        ],
    }


def _score(file: ScoreFile, stored: StoredSet, calibrated: Calibrated | None) -> dict[str, Any]:
    return {
        "scorer": file.scorer,
        "title": file.title,
        "version": file.version,
        "source_hash": file.source_hash,
        "scale": file.scale.model_dump(),
        "calibration": calibrated
        and {**calibrated.model_dump(mode="json"), "text": calibrated.text},
        "family": family_warning(stored.answers.manifest.specification),
        "accuracy": file.summary.overall.accuracy,
        "accuracy_stderr": file.summary.overall.accuracy_stderr,
        "n": file.summary.overall.n,
        "averages": file.summary.averages(),
        "other_results": [result.model_dump() for result in file.other_results],
        "stale": file.label in stored.stale,
        "current": file.label not in stored.older,
        "original": file.original.model_dump() if file.original else None,
        "intact_only": file.intact_only,
    }
