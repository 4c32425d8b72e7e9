"""The result of a flow run as a page of markdown."""

import shlex

from regrade.judging import panel_text as panels
from regrade.judging.panel_result import PanelResult
from regrade.results import other_results, speeds
from regrade.results.results import AnswerSetResult, Evaluation
from regrade.results.tables import (
    COUNT_COLUMNS,
    GENERATED_COLUMNS,
    GENERATED_TEXT,
    LOWEST_COLUMNS,
    TEXT_COLUMNS,
    WIDE_COLUMNS,
    captions,
    columns,
    cost_columns,
    cost_rows,
    generated_rows,
    has_calibrations,
    has_repeats,
    lowest_rows,
    notes,
    table_rows,
    titles,
)
from regrade.settings.view_address import view_address
from regrade.text.markdown import escape, markdown_table, page_tables

_REPEATS = (
    "avg@k: mean over k answers to each question, with an error clustered by question. pass@k: at least one of k answers "
    "is right. maj@k: the most frequent answer is right."
)
_CALIBRATED = (
    "Verdicts of a judge are uncalibrated until people label some answers (`regrade label`). Corrected figures are means of "
    "people's labels, estimated with 95 % intervals: PPI++ from labels of a random part of these answers, Rogan-Gladen from the "
    "judge's errors on other labelled answers."
)


def markdown_report(evaluation: Evaluation, plot: str | None) -> str:
    """Return a markdown page with results, plot, links, and the command that scores the answers again.

    Long cells, seconds and tokens/s are in tables of their own, because the page is narrow.

    Args:
        evaluation: Results of a flow run.
        plot: `data:` URI of an image.
    """
    doubts = [f"**{escape(benchmark)}**: {escape(note)}" for benchmark, note in notes(evaluation)]
    lines = [
        *(line for doubt in doubts for line in (doubt, "")),
        *_scored_lines(evaluation),
        *_generated_lines(evaluation),
        *(f"{escape(caption)}." for caption in captions(evaluation)),
        "",
        *(
            ["Other results of the scorers, on their own scales:", "", *others, ""]
            if (others := _other_results(evaluation))
            else []
        ),
    ]
    for panel in evaluation.panels:
        lines += _panel(panel)
    if lowest := list(lowest_rows(evaluation)):
        lines += ["Lowest subsets:", ""]
        lines += [*markdown_table(LOWEST_COLUMNS, lowest, text=LOWEST_COLUMNS[:2]), ""]
    if plot is not None:
        lines += [f"![accuracy]({plot})", ""]
    lines += [f"- Not scored: {escape(failed.text)}" for failed in evaluation.not_scored]
    named = titles(evaluation)
    lines += [
        _links(named[answers.answer_set_id], answers, evaluation.repository)
        for answers in evaluation.answer_sets
    ]
    if not evaluation.answer_sets:
        return "\n".join([*lines, ""])
    again = " again" if any(answers.scores for answers in evaluation.answer_sets) else ""
    lines += ["", f"Read the answers in a browser; score them{again}, without a model:", "", "```"]
    repository = shlex.quote(evaluation.repository)
    lines += [
        f"regrade view {repository} {answers.answer_set_id}" for answers in evaluation.answer_sets
    ]
    lines += [
        f"regrade score --answers {repository} --answer-set {answers.answer_set_id}"
        for answers in evaluation.answer_sets
    ]
    seconds = list(cost_rows(evaluation))
    costs = cost_columns(evaluation)
    tables = page_tables([costs[:6], costs[6:]], costs, seconds, key=costs[:1])
    return "\n".join([*lines, "```", "", *tables, *_speeds(evaluation)])


def _scored_lines(evaluation: Evaluation) -> list[str]:
    rows, names = list(table_rows(evaluation)), columns(evaluation)
    if not rows and evaluation.answer_sets:
        return []
    models = {row[0] for row in rows}
    head: list[str] = []
    if len(models) == 1:  # without this column, the table fits the page
        head = [f"Model: {escape(models.pop())}", ""]
        rows, names = [row[1:] for row in rows], names[1:]
    key = names[: names.index("scorer")]
    if len({row[: len(key)] for row in rows}) < len(rows):  # several scorers of one benchmark
        key = (*key, "scorer")
    counts = COUNT_COLUMNS[1:]
    wide = [name for name in names if name in WIDE_COLUMNS]
    first = [name for name in names if name not in (*wide, *counts)]
    groups = [first, wide, counts] if wide else [first, counts]
    return [
        *head,
        *page_tables(groups, names, rows, key=key, text=(*TEXT_COLUMNS, *WIDE_COLUMNS)),
        "Accuracy ± one standard error. Unparsed answers count as wrong; failed ones are missing.",
        *([_REPEATS] if has_repeats(evaluation) else []),
        *([_CALIBRATED] if has_calibrations(evaluation) else []),
    ]


def _generated_lines(evaluation: Evaluation) -> list[str]:
    rows = list(generated_rows(evaluation))
    return ["", *markdown_table(GENERATED_COLUMNS, rows, text=GENERATED_TEXT), ""] if rows else []


def _panel(panel: PanelResult) -> list[str]:
    return [
        f"{len(panel.judges)} judges, {escape(panel.title)}:",
        "",
        *markdown_table(panels.COLUMNS, list(panels.panel_rows(panel))),
        "",
        *markdown_table(panels.AGREEMENT_COLUMNS, list(panels.agreement_rows(panel))),
        "",
    ]


def _speeds(evaluation: Evaluation) -> list[str]:
    rows = list(speeds.speed_rows(evaluation))
    loads = [
        f"- {escape(benchmark)}: {escape(line)}"
        for benchmark, line in [*speeds.load_lines(evaluation), *speeds.remark_lines(evaluation)]
    ]
    if not rows:
        return [*loads, ""] if loads else []
    table = markdown_table(speeds.COLUMNS, rows, text=speeds.TEXT_COLUMNS)
    return [*table, "", speeds.LEGEND, "", *loads, ""]


def _other_results(evaluation: Evaluation) -> list[str]:
    rows = list(other_results.other_rows(evaluation))
    return markdown_table(other_results.COLUMNS, rows, text=other_results.TEXT_COLUMNS)


def _links(title: str, answers: AnswerSetResult, repository: str) -> str:
    where = f"[answers]({answers.url})" if answers.url else "answers"
    if answers.mlflow_url:
        run = f", [MLflow run]({answers.mlflow_url})"
    else:
        run = f", MLflow run `{answers.mlflow_run_id}`" if answers.mlflow_run_id else ""
    set_id, revision = answers.answer_set_id, str(answers.revision)[:12]
    view = view_address(repository, set_id)
    read = "" if view is None else f", [read them]({view})"
    if view is not None and answers.scores:
        read += f", [wrong ones]({view}?verdict=wrong)"
    report = f", [report]({answers.report_url})" if answers.report_url else ""
    return f"- {escape(title)}: {where} `{set_id}` at commit `{revision}`{run}{report}{read}"
