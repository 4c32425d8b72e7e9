"""The one table: every number with its error, its n and what is missing, the same wherever it is shown."""

import re
from collections.abc import Iterator

from regrade.results import AnswerSetResult, Evaluation, ScoreResult

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
TEXT_COLUMNS = 3
"""The first columns are text, the others numbers."""


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
    """Return the table with links, an embedded plot and the command that grades again, as markdown.

    Args:
        evaluation: What was found.
        plot: `data:` URI of a picture.
    """
    lines = [
        "| " + " | ".join(COLUMNS) + " |",
        "|" + "".join(" --- |" if i < TEXT_COLUMNS else " ---: |" for i in range(len(COLUMNS))),
    ]
    lines += [
        "| " + " | ".join(escape(cell) for cell in row) + " |" for row in table_rows(evaluation)
    ]
    lines += [
        "",
        "Accuracy ± one standard error. Unparsed answers count as wrong; failed ones are missing.",
        "",
    ]
    if plot is not None:
        lines += [f"![accuracy]({plot})", ""]
    lines += [f"- Not scored: {escape(one.text)}" for one in evaluation.not_scored]
    for answers in evaluation.answer_sets:
        where = f"[answers]({answers.url})" if answers.url else "answers"
        run = f", MLflow run `{answers.mlflow_run_id}`" if answers.mlflow_run_id else ""
        lines.append(
            f"- {escape(answers.benchmark)}: {where} `{answers.answer_set_id}` at `{answers.revision}`{run}"
        )
    if not evaluation.answer_sets:
        return "\n".join([*lines, ""])
    lines += ["", "Grade the same answers again, without a model:", "", "```"]
    lines += [
        f"regrade score --answers {evaluation.repository} --answer-set {answers.answer_set_id}"
        for answers in evaluation.answer_sets
    ]
    return "\n".join([*lines, "```", ""])


def escape(text: str) -> str:
    """Return a text from outside so that markdown and HTML show it as it is, in one table cell."""
    visible = "".join(
        c if c.isprintable() or c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text
    )
    return _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", " ".join(visible.split()))
