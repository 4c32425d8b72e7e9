"""The table of results: accuracy with its standard error, counts, seconds."""

import re
from collections.abc import Collection, Iterator, Sequence

from regrade.reporting.results import AnswerSetResult, Evaluation, ScoreResult
from regrade.scoring.fit import is_cut_short

TEXT_COLUMNS = ("model", "benchmark", "scorer")
RESULT_COLUMNS = (*TEXT_COLUMNS, "accuracy", "n", "unparsed", "truncated", "failed")
STAGES = ("load", "generate", "publish", "score", "track")
COLUMNS = (*RESULT_COLUMNS, *(f"{stage} s" for stage in STAGES), "tokens/s")
_SPECIAL = re.compile(r"[&\\`*_{}\[\]<>#|!~$]")
_COMMON = "_#~!{}$\\"


def table_rows(evaluation: Evaluation) -> Iterator[tuple[str, ...]]:
    """Yield a row per scoring, in the order of `COLUMNS`; seconds and speed only in an answer set's first row."""
    for answers in evaluation.answer_sets:
        costs = _costs(answers)
        for score in answers.scores:
            yield *_results(answers, score), *costs
            costs = ("",) * len(costs)


def percent(value: float | int | None, digits: int = 1) -> str:
    """Return a share as a percentage; a dash for None."""
    return "-" if value is None else f"{100 * value:.{digits}f} %"


def accuracy_text(accuracy: float | None, error: float | None, digits: int = 1) -> str:
    """Return an accuracy with its standard error if known, such as `74.5 ± 2.2 %`; a dash for None."""
    if accuracy is None or error is None:
        return percent(accuracy, digits)
    return f"{100 * accuracy:.{digits}f} ± {100 * error:.{digits}f} %"


def _results(answers: AnswerSetResult, score: ScoreResult) -> tuple[str, ...]:
    metrics = score.metrics
    shown = accuracy_text(metrics["accuracy"], metrics["accuracy_stderr"])
    expected = f"{metrics['n']}"
    if answers.rows < answers.expected_rows:
        expected += f" (of {answers.expected_rows}: incomplete)"
    return (
        answers.model,
        answers.benchmark,
        f"{score.scorer} v{score.version}"
        + (f", {score.intact_only}" if score.intact_only else ""),
        shown,
        expected,
        percent(metrics["unparsed_rate"]),
        percent(metrics["truncated_rate"]),
        f"{metrics['failed']}",
    )


def _costs(answers: AnswerSetResult) -> tuple[str, ...]:
    speed = answers.tokens_per_second
    return (
        *(f"{answers.seconds[stage]:.1f}" if stage in answers.seconds else "" for stage in STAGES),
        "" if speed is None else f"{speed:,.0f}",
    )


def markdown_report(evaluation: Evaluation, plot: str | None) -> str:
    """Return a markdown page with results, plot, links, and the command that scores the answers again.

    Seconds and tokens/s are in a second table, because the page is narrow.

    Args:
        evaluation: Results of a flow run.
        plot: `data:` URI of an image.
    """
    rows = [
        _results(answers, score) for answers in evaluation.answer_sets for score in answers.scores
    ]
    doubts = [f"**{escape(benchmark)}**: {escape(note)}" for benchmark, note in notes(evaluation)]
    lines = [
        *(line for doubt in doubts for line in (doubt, "")),
        *markdown_table(RESULT_COLUMNS, rows, text=TEXT_COLUMNS),
        "",
        "Accuracy ± one standard error. Unparsed answers count as wrong; failed ones are missing.",
        "",
    ]
    if plot is not None:
        lines += [f"![accuracy]({plot})", ""]
    lines += [f"- Not scored: {escape(failed.text)}" for failed in evaluation.not_scored]
    lines += [_links(answers) for answers in evaluation.answer_sets]
    if not evaluation.answer_sets:
        return "\n".join([*lines, ""])
    lines += ["", "Score the same answers again, without a model:", "", "```"]
    lines += [
        f"regrade score --answers {evaluation.repository} --answer-set {answers.answer_set_id}"
        for answers in evaluation.answer_sets
    ]
    costs = [
        (answers.benchmark, *cells)
        for answers in evaluation.answer_sets
        if answers.scores and any(cells := _costs(answers))
    ]
    columns = ("seconds", *STAGES, "tokens/s")
    return "\n".join([*lines, "```", "", *markdown_table(columns, costs), ""])


def notes(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    """Yield benchmark and sentence for each reason to doubt a score."""
    for answers in evaluation.answer_sets:
        for score in answers.scores:
            yield from ((answers.benchmark, note) for note in score.notes)


def headline(evaluation: Evaluation) -> str:
    """Return one line: the model, and each benchmark with its headline accuracy, standard error and n."""
    accuracies = [
        f"{answers.benchmark} {_headline(score)}"
        for answers in evaluation.answer_sets
        for score in answers.scores
        if score.headline
    ]
    models = ", ".join(sorted({answers.model for answers in evaluation.answer_sets}))
    return f"{models}: {', '.join(accuracies)}" if accuracies else models


def _headline(score: ScoreResult) -> str:
    shown = accuracy_text(score.metrics["accuracy"], score.metrics["accuracy_stderr"])
    truncated = score.metrics["truncated_rate"]
    cut = f", {percent(truncated)} truncated" if is_cut_short(truncated) else ""
    return f"{shown} (n={score.metrics['n']}{cut})"


def markdown_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, text: Collection[str] = ()
) -> list[str]:
    """Return the lines of a table with escaped cells; no lines without rows.

    Args:
        columns: Names of the columns.
        rows: Cells in the order of the columns.
        text: Columns with text, aligned left; by default only the first. The others hold numbers.
    """
    if not rows:
        return []
    left = text or columns[:1]
    return [
        "| " + " | ".join(columns) + " |",
        "|" + "".join(" --- |" if name in left else " ---: |" for name in columns),
        *("| " + " | ".join(escape(cell) for cell in row) + " |" for row in rows),
    ]


def _links(answers: AnswerSetResult) -> str:
    where = f"[answers]({answers.url})" if answers.url else "answers"
    if answers.mlflow_url:
        run = f", [MLflow run]({answers.mlflow_url})"
    else:
        run = f", MLflow run `{answers.mlflow_run_id}`" if answers.mlflow_run_id else ""
    set_id, revision = answers.answer_set_id, str(answers.revision)[:12]
    return f"- {escape(answers.benchmark)}: {where} `{set_id}` at commit `{revision}`{run}"


def escape(text: str) -> str:
    """Escape an untrusted text, so that markdown and HTML show it unchanged in a table cell.

    Characters common in names get a backslash, because Prefect's page does not decode entities. Characters with a
    meaning in HTML, links, code or tables become entities, which are safe on any page.
    """
    visible = "".join(
        c if c.isprintable() or c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text
    )
    return _SPECIAL.sub(_escaped, " ".join(visible.split()))


def _escaped(special: re.Match[str]) -> str:
    return f"\\{special[0]}" if special[0] in _COMMON else f"&#{ord(special[0])};"
