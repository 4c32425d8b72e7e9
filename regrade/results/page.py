"""The page of an evaluation: results, plot, links, and the command that scores the answers again."""

import shlex
from collections.abc import Iterator
from dataclasses import replace

from regrade.judging import panel_text
from regrade.results.bias import evaluation_lines
from regrade.results.results import AnswerSetResult, Evaluation, ScoreResult
from regrade.results.speeds import LEGEND, speed_lines, speed_table
from regrade.results.tables import (
    captions,
    cost_table,
    generated_table,
    has_calibrations,
    has_repeats,
    lowest_table,
    notes,
    score_table,
    titles,
)
from regrade.settings.view_address import view_address
from regrade.stats.named import Aggregate
from regrade.text.blocks import (
    Block,
    Code,
    Commands,
    Details,
    Heading,
    Items,
    Line,
    Link,
    Plot,
    Strong,
    Table,
    Words,
    with_code,
)

_ACCURACY = (
    "Accuracy ± one standard error. Unparsed answers count as wrong; failed ones are missing."
)
_REPEATS = (
    "avg@k: mean over k answers to each question, with an error clustered by question. pass@k: at least one of k answers "
    "is right. maj@k: the most frequent answer is right."
)
_CALIBRATED = (
    "A judge's reply without a verdict is missing, not wrong. Verdicts are uncalibrated until people label some answers (`regrade "
    "label`). Corrected figures are means of people's labels, estimated with 95 % intervals: PPI++ from labels of a random part of "
    "these answers, Rogan-Gladen from the judge's errors on other labelled answers."
)
_OTHER_COLUMNS = ("benchmark", "scorer", "part", "result", "value", "n")
MOST_ROWS = 40
"""Rows of a scoring that are shown; `--json` has all."""


def blocks(evaluation: Evaluation, plot: str | None = None) -> list[Block]:
    """Return the page of an evaluation.

    Args:
        evaluation: Results of a flow run.
        plot: `data:` URI of an image.
    """
    return list(_blocks(evaluation, plot))


def _blocks(evaluation: Evaluation, plot: str | None) -> Iterator[Block]:
    for benchmark, note in notes(evaluation):
        yield Line((Strong(benchmark), f": {note}"), "doubt")
    yield from _scores(evaluation)
    yield generated_table(evaluation)
    yield from map(Line, captions(evaluation))
    if (others := other_table(evaluation)).rows:
        yield Heading("Other results of the scorers, on their own scales", 3)
        yield others
    for panel in evaluation.panels:
        yield Heading(f"{len(panel.judges)} judges, {panel.title}", 3)
        yield from panel_text.blocks(panel)
    if signs := list(evaluation_lines(evaluation)):
        yield from (Heading("Signs of bias of the judge", 3), Items(signs))
    if (lowest := lowest_table(evaluation)).rows:
        yield Details((Heading("Lowest subsets", 3), lowest))
    if plot is not None:
        yield Plot("accuracy", plot)
    if evaluation.not_scored:
        yield Details((Items([f"Not scored: {failed.text}" for failed in evaluation.not_scored]),))
    if evaluation.answer_sets:
        yield Details(tuple(_ways_on(evaluation)))
    yield cost_table(evaluation)
    speeds = list(_speeds(evaluation))
    if any(answers.speed and answers.speed.goodput for answers in evaluation.answer_sets):
        yield from speeds  # somebody asked for them
    elif speeds:
        yield Details((Heading("Speed", 3), *speeds))
    if evaluation.time_spent is not None:
        yield from evaluation.time_spent.blocks()


def _speeds(evaluation: Evaluation) -> Iterator[Block]:
    if (speeds := speed_table(evaluation)).rows:
        yield from (speeds, Line(LEGEND, "note"))
    if lines := list(speed_lines(evaluation)):
        yield Items(lines)


def _scores(evaluation: Evaluation) -> Iterator[Block]:
    table = score_table(evaluation)
    if not table.rows:
        return
    models = {row[0] for row in table.rows}
    if len(models) == 1:  # without this column, the table fits the page
        yield Line(f"Model: {models.pop()}")
        table = replace(
            table,
            columns=table.columns[1:],
            rows=[row[1:] for row in table.rows],
            headings=table.headings[1:],
        )
    yield table
    yield Line(_ACCURACY, "note")
    if has_repeats(evaluation):
        yield Line(_REPEATS, "note")
    if has_calibrations(evaluation):
        yield Line(with_code(_CALIBRATED), "note")


def _ways_on(evaluation: Evaluation) -> Iterator[Block]:
    """Yield links to the answers, and the commands that read and score them."""
    named = titles(evaluation)
    yield Items(
        [
            tuple(_links(named[answers.answer_set_id], answers, evaluation.repository))
            for answers in evaluation.answer_sets
        ]
    )
    again = " again" if any(answers.scores for answers in evaluation.answer_sets) else ""
    yield Line(f"Read the answers in a browser; score them{again}, without a model:")
    repository = shlex.quote(evaluation.repository)
    ids = [answers.answer_set_id for answers in evaluation.answer_sets]
    yield Commands(
        [
            *(f"regrade view {repository} {set_id}" for set_id in ids),
            *(f"regrade score --answers {repository} --answer-set {set_id}" for set_id in ids),
        ]
    )


def _links(title: str, answers: AnswerSetResult, repository: str) -> Iterator[Words]:
    set_id, revision = answers.answer_set_id, str(answers.revision)[:12]
    yield f"{title}: "
    yield Link("answers", answers.url) if answers.url else "answers"
    yield from (" ", Code(set_id), " at commit ", Code(revision))
    if answers.mlflow_url:
        yield from (", ", Link("MLflow run", answers.mlflow_url))
    elif answers.mlflow_run_id:
        yield from (", MLflow run ", Code(answers.mlflow_run_id))
    if answers.report_url:
        yield from (", ", Link("report", answers.report_url))
    if (view := view_address(repository, set_id)) is not None:
        yield from (", ", Link("read them", view))
        if answers.scores:
            yield from (", ", Link("wrong ones", f"{view}?verdict=wrong"))


def other_table(evaluation: Evaluation) -> Table:
    """Return the results beside the accuracy, such as strict and loose accuracy, on the scale of their scorer."""
    return Table(
        _OTHER_COLUMNS,
        list(_other_rows(evaluation)),
        _OTHER_COLUMNS[:4],
        headings=_OTHER_COLUMNS[:2],
    )


def _other_rows(evaluation: Evaluation) -> Iterator[tuple[str, ...]]:
    named = titles(evaluation)
    for answers in evaluation.answer_sets:
        title = named[answers.answer_set_id]
        for score in answers.scores:
            shown = score.other_results[:MOST_ROWS]
            for result in shown:
                error = f" ± {result.stderr:.4f}" if result.stderr else ""
                value = f"{result.value:.4f}{error}{_by_people(score, result)}"
                yield (
                    title,
                    score.scorer,
                    result.subset or "all",
                    result.name,
                    value,
                    f"{result.n}",
                )
            if left := len(score.other_results) - len(shown):
                yield title, score.scorer, f"{left} more: `--json`", "", "", ""


def _by_people(score: ScoreResult, result: Aggregate) -> str:
    """Return in brackets the calibration by labels of a further field of a judge's verdict; "" for other results."""
    fields = {} if score.calibrated is None else score.calibrated.fields
    found = None if result.subset else fields.get(result.name)
    if found is None:
        return ""
    return f" ({found.text})" if found.method is None else f" (by people's labels {found.text})"
