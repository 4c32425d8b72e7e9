"""The table of results: accuracy with its standard error, counts, seconds."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from regrade.reporting import other_results, panels, speeds
from regrade.reporting.panel_results import PanelResult
from regrade.reporting.results import AnswerSetResult, Evaluation, ScoreResult
from regrade.scoring.fit import is_cut_short
from regrade.specification import named_apart
from regrade.stats.repeats import average_name, further_averages
from regrade.stats.scale import SHARES, Scale
from regrade.view_address import view_address

TEXT_COLUMNS = ("model", "benchmark", "scorer")
HEADINGS = ("model", "benchmark")
"""Columns that may stand above the rows instead."""
STAGES = ("load", "generate", "publish", "score", "track")
COST_COLUMNS = ("seconds", *STAGES, "tokens/s")
_SPECIAL = re.compile(r"[&\\`*_{}\[\]<>#|!~$]")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def columns(evaluation: Evaluation) -> tuple[str, ...]:
    """Return the names of the columns of `table_rows`."""
    repeated = ("with repeats",) if _has_repeats(evaluation) else ()
    return (
        *TEXT_COLUMNS,
        "accuracy",
        *(["by people's labels"] if _has_calibrations(evaluation) else []),
        "n",
        *repeated,
        "unparsed",
        "truncated",
        "failed",
    )


def table_rows(evaluation: Evaluation) -> Iterator[tuple[str, ...]]:
    """Yield a row per scoring, in the order of `columns`."""
    repeated, labelled = _has_repeats(evaluation), _has_calibrations(evaluation)
    names = model_names(evaluation)
    for answers in evaluation.answer_sets:
        for score in answers.scores:
            accuracy, *counts = _results(answers, score, repeated=repeated)
            corrected = [score.calibrated.text if score.calibrated else ""]
            name = f"{score.scorer} v{score.version}"
            yield (
                names[answers.answer_set_id],
                answers.benchmark,
                name + (f", {score.intact_only}" if score.intact_only else ""),
                accuracy,
                *(corrected if labelled else []),
                *counts,
            )


def _token_columns(evaluation: Evaluation) -> tuple[str, ...]:
    """Return the columns of `_tokens`: for judges, or if a price is known."""
    sets = evaluation.answer_sets
    shown = any(answers.judged is not None or answers.cost is not None for answers in sets)
    return ("tokens in", "tokens out", "cost") if shown else ()


def _tokens(answers: AnswerSetResult) -> tuple[str, ...]:
    cost = "" if answers.cost is None else f"{answers.cost:,.4f}"
    return f"{answers.prompt_tokens:,}", f"{answers.completion_tokens:,}", cost


def cost_columns(evaluation: Evaluation) -> tuple[str, ...]:
    """Return the columns of `cost_rows`: tokens and price only for judges, or if a price is known."""
    return (*COST_COLUMNS, *_token_columns(evaluation))


def cost_rows(evaluation: Evaluation) -> Iterator[tuple[str, ...]]:
    """Yield a row per answer set with the seconds that this run took for it, in the order of `cost_columns`."""
    names, tokens = model_names(evaluation), _token_columns(evaluation)
    for answers in evaluation.answer_sets:
        cells = (*_costs(answers), *(_tokens(answers) if tokens else ()))
        if any(cells):
            model = f" · {names[answers.answer_set_id]}" if len({*names.values()}) > 1 else ""
            yield f"{answers.benchmark}{model}", *cells


GENERATED_COLUMNS = (*HEADINGS, "answers", "new", "failed", "answer set")
_GENERATED_TEXT = (*HEADINGS, "answer set")


def generated_rows(evaluation: Evaluation) -> Iterator[tuple[str, ...]]:
    """Yield a row per answer set that was not scored, in the order of `GENERATED_COLUMNS`."""
    names = model_names(evaluation)
    for answers in evaluation.answer_sets:
        if not answers.scores:
            yield (
                names[answers.answer_set_id],
                answers.benchmark,
                f"{answers.rows:,} of {answers.expected_rows:,}",
                f"{answers.generated:,}",
                f"{answers.failed + answers.refused:,}",
                answers.answer_set_id,
            )


LOWEST_COLUMNS = ("benchmark", "subset", "accuracy", "n")


def lowest_rows(evaluation: Evaluation) -> Iterator[tuple[str, ...]]:
    """Yield the subsets with the lowest accuracy of each headline number, in the order of `LOWEST_COLUMNS`."""
    for answers in evaluation.answer_sets:
        for score in answers.scores:
            for subset in score.lowest if score.headline else ():
                shown = score.scale.mean_text(subset.accuracy, subset.accuracy_stderr)
                yield answers.benchmark, subset.name, shown, f"{subset.n:,}"


def captions(evaluation: Evaluation) -> Iterator[str]:
    """Yield what a reader of the table has to know: incomplete answers, and what `n` counts."""
    for answers in evaluation.answer_sets:
        if answers.rows < answers.expected_rows:
            yield f"{answers.benchmark} · {answers.model}: incomplete, {_answered(answers)}"
    if _has_repeats(evaluation):
        yield "n counts answers; the error is that of the questions"


def model_names(evaluation: Evaluation) -> dict[str, str]:
    """Return the model's name for each answer set id, with the beginning of its revision if two models have the same name."""
    revisions: dict[str, set[str | None]] = {}
    for answers in evaluation.answer_sets:
        revisions.setdefault(answers.model, set()).add(answers.model_revision)
    names = {
        answers.answer_set_id: named_apart(
            answers.model, answers.model_revision, revisions[answers.model]
        )
        for answers in evaluation.answer_sets
    }
    judged = {a.answer_set_id: a.judged for a in evaluation.answer_sets if a.judged is not None}
    return names | {key: f"{model} (judge {names[key]})" for key, model in judged.items()}


def _has_calibrations(evaluation: Evaluation) -> bool:
    return any(score.calibrated for answers in evaluation.answer_sets for score in answers.scores)


def _has_repeats(evaluation: Evaluation) -> bool:
    return any(answers.repeats > 1 for answers in evaluation.answer_sets)


def percent(value: float | int | None, digits: int = 1) -> str:
    """Return a share as a percentage; a dash for None."""
    return "-" if value is None else f"{100 * value:.{digits}f} %"


def average_text(
    accuracy: float | None,
    error: float | None,
    repeats: int,
    digits: int = 1,
    scale: Scale = SHARES,
) -> str:
    """Return a mean with its standard error, and with its name if questions had several answers: `avg@8 74.5 ± 2.2 %`."""
    return f"{average_name(repeats)} {scale.mean_text(accuracy, error, digits)}".strip()


def repeats_text(metrics: Mapping[str, float | int | None], repeats: int) -> str:
    """Return what several answers show besides their average: `pass@8 85.0 ± 2.1 %, maj@8 78.0 ± 2.4 %`; "" without."""
    averages = further_averages(metrics, repeats)
    return ", ".join(f"{name} {SHARES.mean_text(value, error)}" for name, value, error in averages)


def _results(answers: AnswerSetResult, score: ScoreResult, *, repeated: bool) -> tuple[str, ...]:
    """Return the cells from the accuracy on."""
    metrics = score.metrics
    return (
        _accuracy(score, answers.repeats),
        f"{metrics['n']:,}",
        *((repeats_text(metrics, answers.repeats),) if repeated else ()),
        percent(metrics["unparsed_rate"]),
        percent(metrics["truncated_rate"]),
        f"{metrics['failed']:,}",
    )


def _accuracy(score: ScoreResult, repeats: int) -> str:
    metrics = score.metrics
    return average_text(metrics["accuracy"], metrics["accuracy_stderr"], repeats, scale=score.scale)


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
    lines += [_links(answers, evaluation.repository) for answers in evaluation.answer_sets]
    if not evaluation.answer_sets:
        return "\n".join([*lines, ""])
    again = " again" if any(answers.scores for answers in evaluation.answer_sets) else ""
    lines += ["", f"Read the answers in a browser; score them{again}, without a model:", "", "```"]
    lines += [
        f"regrade view {evaluation.repository} {answers.answer_set_id}"
        for answers in evaluation.answer_sets
    ]
    lines += [
        f"regrade score --answers {evaluation.repository} --answer-set {answers.answer_set_id}"
        for answers in evaluation.answer_sets
    ]
    seconds = list(cost_rows(evaluation))
    tables = [*markdown_table(cost_columns(evaluation), seconds), "", *_speeds(evaluation)]
    return "\n".join([*lines, "```", "", *tables])


def _scored_lines(evaluation: Evaluation) -> list[str]:
    rows = list(table_rows(evaluation))
    if not rows and evaluation.answer_sets:
        return []
    return [
        *markdown_table(columns(evaluation), rows, text=TEXT_COLUMNS),
        "",
        "Accuracy ± one standard error. Unparsed answers count as wrong; failed ones are missing.",
        *([_REPEATS] if _has_repeats(evaluation) else []),
        *([CALIBRATED] if _has_calibrations(evaluation) else []),
    ]


def _generated_lines(evaluation: Evaluation) -> list[str]:
    rows = list(generated_rows(evaluation))
    return ["", *markdown_table(GENERATED_COLUMNS, rows, text=_GENERATED_TEXT), ""] if rows else []


_REPEATS = (
    "avg@k: mean over k answers to each question, with an error clustered by question. pass@k: at least one of k answers "
    "is right. maj@k: the most frequent answer is right."
)


CALIBRATED = (
    "Verdicts of a judge are uncalibrated until people label some answers (`regrade label`). Corrected figures are means of "
    "people's labels, estimated with 95 % intervals: PPI++ from labels of a random part of these answers, Rogan-Gladen from the "
    "judge's errors on other labelled answers."
)


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
    return [*markdown_table(speeds.COLUMNS, rows, text=speeds.TEXT_COLUMNS), "", *loads, ""]


def _other_results(evaluation: Evaluation) -> list[str]:
    rows = list(other_results.other_rows(evaluation))
    return markdown_table(other_results.COLUMNS, rows, text=other_results.TEXT_COLUMNS)


def notes(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    """Yield benchmark and sentence for each reason to doubt a score."""
    for answers in evaluation.answer_sets:
        for score in answers.scores:
            yield from ((answers.benchmark, note) for note in score.notes)


def headline(evaluation: Evaluation) -> str:
    """Return one line: the model, and each benchmark with its headline accuracy, standard error, n, pass@k and maj@k.

    A benchmark without any scoring has its number of answers instead.
    """
    return _headline_of(evaluation, _headline) or _models(evaluation)


def short_headline(evaluation: Evaluation) -> str:
    """Return the models, and each benchmark with its accuracy and standard error, or its answers; empty without any."""
    return _headline_of(evaluation, lambda answers, score: _accuracy(score, answers.repeats))


def _headline_of(
    evaluation: Evaluation, shown: Callable[[AnswerSetResult, ScoreResult], str]
) -> str:
    results = []
    for answers in evaluation.answer_sets:
        if not answers.scores:
            results.append(f"{answers.benchmark} {_answered(answers)}, not scored")
        results += [
            f"{answers.benchmark} {shown(answers, score)}"
            for score in answers.scores
            if score.headline
        ]
    return f"{_models(evaluation)}: {', '.join(results)}" if results else ""


def _models(evaluation: Evaluation) -> str:
    return ", ".join(sorted({*model_names(evaluation).values()}))


def _answered(answers: AnswerSetResult) -> str:
    return f"{answers.rows:,} of {answers.expected_rows:,} answers"


def _headline(answers: AnswerSetResult, score: ScoreResult) -> str:
    metrics, repeats = score.metrics, answers.repeats
    shown = _accuracy(score, repeats)
    truncated = metrics["truncated_rate"]
    details = [f"n={metrics['n']}"]
    if repeats > 1:
        details.append(repeats_text(metrics, repeats))
    if is_cut_short(truncated):
        details.append(f"{percent(truncated)} truncated")
    if score.calibrated is not None:
        found = score.calibrated
        details.append(found.text if found.method is None else f"by people's labels {found.text}")
    return f"{shown} ({', '.join(filter(None, details))})"


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


def _links(answers: AnswerSetResult, repository: str) -> str:
    where = f"[answers]({answers.url})" if answers.url else "answers"
    if answers.mlflow_url:
        run = f", [MLflow run]({answers.mlflow_url})"
    else:
        run = f", MLflow run `{answers.mlflow_run_id}`" if answers.mlflow_run_id else ""
    set_id, revision = answers.answer_set_id, str(answers.revision)[:12]
    view = view_address(repository, set_id)
    read = "" if view is None else f", [read them]({view}), [wrong ones]({view}?verdict=wrong)"
    report = f", [report]({answers.report_url})" if answers.report_url else ""
    return f"- {escape(answers.benchmark)}: {where} `{set_id}` at commit `{revision}`{run}{report}{read}"


def escape(text: str) -> str:
    """Escape an untrusted text, so that markdown and HTML show it unchanged, also in a table cell.

    Characters with a meaning in HTML become named entities, others get a backslash: Prefect's page decodes these
    entities only, and shows numeric ones as they are.
    """
    visible = "".join(
        c if c.isprintable() or c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text
    )
    return _SPECIAL.sub(_escaped, " ".join(visible.split()))


def _escaped(special: re.Match[str]) -> str:
    return _ENTITIES.get(special[0], f"\\{special[0]}")
