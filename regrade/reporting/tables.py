"""The one table: every number with its error, its n and what is missing, the same wherever it is shown."""

import re
from collections.abc import Iterator, Sequence

from regrade.reporting.results import AnswerSetResult, Evaluation, ScoreResult

COLUMNS = (
    "model",
    "benchmark",
    "scorer",
    "accuracy",
    "n",
    "unparsed",
    "truncated",
    "failed",
    "load s",
    "generate s",
    "publish s",
    "score s",
    "track s",
    "tokens/s",
)
_SPECIAL = re.compile(r"[&\\`*_{}\[\]<>#|!~$]")
_COMMON = "_#~!{}$\\"
TEXT_COLUMNS = 3
"""The first columns are text, the others numbers."""
_N_RESULTS = COLUMNS.index("load s")
"""The first columns are what was found, the others what it cost."""


def table_rows(evaluation: Evaluation) -> Iterator[tuple[str, ...]]:
    """Yield the cells of one row per scoring, in the order of `COLUMNS`."""
    for answers in evaluation.answer_sets:
        for number, score in enumerate(answers.scores):
            yield _row(answers, score, first=number == 0)


def percent(value: float | int | None, digits: int = 1) -> str:
    """Return a share as a percentage; a dash where there is none."""
    return "-" if value is None else f"{100 * value:.{digits}f} %"


def _row(answers: AnswerSetResult, score: ScoreResult, *, first: bool) -> tuple[str, ...]:
    metrics = score.metrics
    accuracy, error = metrics["accuracy"], metrics["accuracy_stderr"]
    shown = percent(accuracy)
    if accuracy is not None and error is not None:
        shown = f"{100 * accuracy:.1f} ± {100 * error:.1f} %"
    expected = f"{metrics['n']}"
    if answers.rows < answers.expected_rows:
        expected += f" (of {answers.expected_rows}: incomplete)"
    speed = answers.tokens_per_second
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
        *(
            f"{answers.seconds[stage]:.1f}" if first and stage in answers.seconds else ""
            for stage in ("load", "generate", "publish", "score", "track")
        ),
        f"{speed:,.0f}" if first and speed is not None else "",
    )


def markdown_report(evaluation: Evaluation, plot: str | None) -> str:
    """Return the results with links, an embedded plot and the command that grades again, as markdown.

    The page is narrow: what the numbers cost is a table of its own, below.

    Args:
        evaluation: What was found.
        plot: `data:` URI of a picture.
    """
    rows = list(table_rows(evaluation))
    lines = [
        *_table(COLUMNS[:_N_RESULTS], [row[:_N_RESULTS] for row in rows]),
        "",
        "Accuracy ± one standard error. Unparsed answers count as wrong; failed ones are missing.",
        "",
    ]
    if plot is not None:
        lines += [f"![accuracy]({plot})", ""]
    lines += [f"- Not scored: {escape(one.text)}" for one in evaluation.not_scored]
    lines += [_links(answers) for answers in evaluation.answer_sets]
    if not evaluation.answer_sets:
        return "\n".join([*lines, ""])
    lines += ["", "Grade the same answers again, without a model:", "", "```"]
    lines += [
        f"regrade score --answers {evaluation.repository} --answer-set {answers.answer_set_id}"
        for answers in evaluation.answer_sets
    ]
    costs = [(row[1], *row[_N_RESULTS:]) for row in rows if any(row[_N_RESULTS:])]
    columns = ("seconds", *(name.removesuffix(" s") for name in COLUMNS[_N_RESULTS:]))
    return "\n".join([*lines, "```", "", *_table(columns, costs, n_text=1), ""])


def headline(evaluation: Evaluation) -> str:
    """Return the result in a few words: each benchmark with its headline accuracy."""
    found = [
        f"{answers.benchmark} {percent(score.metrics['accuracy'])}"
        for answers in evaluation.answer_sets
        for score in answers.scores
        if score.headline
    ]
    models = ", ".join(sorted({answers.model for answers in evaluation.answer_sets}))
    return f"{models}: {', '.join(found)}" if found else models


def _table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, n_text: int = TEXT_COLUMNS
) -> list[str]:
    return [
        "| " + " | ".join(columns) + " |",
        "|" + "".join(" --- |" if i < n_text else " ---: |" for i in range(len(columns))),
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
    """Return a text from outside so that markdown and HTML show it as it is, in one table cell.

    What names hold is escaped by a backslash, since Prefect's page shows entities as they are written; what makes
    HTML, links, code or cells by an entity, since that holds wherever the text ends up.
    """
    visible = "".join(
        c if c.isprintable() or c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text
    )
    return _SPECIAL.sub(_escaped, " ".join(visible.split()))


def _escaped(special: re.Match[str]) -> str:
    return f"\\{special[0]}" if special[0] in _COMMON else f"&#{ord(special[0])};"
