"""The table of results: accuracy with its standard error, counts, seconds."""

from collections.abc import Callable, Iterator

from regrade.answers.figures import figures_in
from regrade.records.specification import named_apart
from regrade.results.results import AnswerSetResult, Evaluation, ScoreResult
from regrade.scoring.fit import is_cut_short
from regrade.text.numbers import average_text, percent, repeats_text

TEXT_COLUMNS = ("model", "benchmark", "scorer")
COUNT_COLUMNS = ("n", "unparsed", "truncated", "failed")
REPEATS, CALIBRATED = WIDE_COLUMNS = ("with repeats", "by people's labels")
"""Columns with long cells."""
HEADINGS = ("model", "benchmark")
"""Columns that may stand above the rows instead."""
STAGES = ("load", "generate", "publish", "score", "track")
COST_COLUMNS = ("seconds", *STAGES, "tokens/s")


def columns(evaluation: Evaluation) -> tuple[str, ...]:
    """Return the names of the columns of `table_rows`."""
    repeated = (REPEATS,) if has_repeats(evaluation) else ()
    return (
        *TEXT_COLUMNS,
        "accuracy",
        *([CALIBRATED] if has_calibrations(evaluation) else []),
        *COUNT_COLUMNS[:1],
        *repeated,
        *COUNT_COLUMNS[1:],
    )


def table_rows(evaluation: Evaluation) -> Iterator[tuple[str, ...]]:
    """Yield a row per scoring, in the order of `columns`."""
    repeated, labelled = has_repeats(evaluation), has_calibrations(evaluation)
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
    figures = (figure.heading for figure in figures_in("page"))
    return (*COST_COLUMNS, *_token_columns(evaluation), *figures)


def cost_rows(evaluation: Evaluation) -> Iterator[tuple[str, ...]]:
    """Yield a row per answer set with the seconds that this run took for it, in the order of `cost_columns`."""
    names, tokens = titles(evaluation), _token_columns(evaluation)
    for answers in evaluation.answer_sets:
        figures = (figure.text(answers.figures.get(figure.name)) for figure in figures_in("page"))
        cells = (*_costs(answers), *(_tokens(answers) if tokens else ()), *figures)
        if any(cells):
            yield names[answers.answer_set_id], *cells


def set_titles(evaluation: Evaluation) -> dict[str, str]:
    """Return the benchmark for each answer set id; with the model, and its judge, if several sets are of one benchmark."""
    names = model_names(evaluation)
    benchmarks = [answers.benchmark for answers in evaluation.answer_sets]
    return {
        answers.answer_set_id: answers.benchmark
        if benchmarks.count(answers.benchmark) == 1
        else f"{answers.benchmark} · {names[answers.answer_set_id]}"
        for answers in evaluation.answer_sets
    }


GENERATED_COLUMNS = (*HEADINGS, "answers", "new", "failed", "answer set")
GENERATED_TEXT = (*HEADINGS, "answer set")


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
    names = titles(evaluation)
    for answers in evaluation.answer_sets:
        for score in answers.scores:
            for subset in score.lowest if score.headline else ():
                shown = score.scale.mean_text(subset.accuracy, subset.accuracy_stderr)
                yield names[answers.answer_set_id], subset.name, shown, f"{subset.n:,}"


def captions(evaluation: Evaluation) -> Iterator[str]:
    """Yield what a reader of the table has to know: incomplete answers, and what `n` counts."""
    for answers in evaluation.answer_sets:
        if answers.rows < answers.expected_rows:
            yield f"{answers.benchmark} · {answers.model}: incomplete, {answered_text(answers)}"
    if has_repeats(evaluation):
        yield "n counts answers; the error is that of the questions"


def titles(evaluation: Evaluation) -> dict[str, str]:
    """Return the benchmark of each answer set id, with the model if there are several."""
    names = model_names(evaluation)
    several = len({*names.values()}) > 1
    return {
        answers.answer_set_id: answers.benchmark
        + (f" · {names[answers.answer_set_id]}" if several else "")
        for answers in evaluation.answer_sets
    }


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


def has_calibrations(evaluation: Evaluation) -> bool:
    """Return True if there is a column for people's labels."""
    return any(score.calibrated for answers in evaluation.answer_sets for score in answers.scores)


def has_repeats(evaluation: Evaluation) -> bool:
    """Return True if questions had several answers."""
    return any(answers.repeats > 1 for answers in evaluation.answer_sets)


def _results(answers: AnswerSetResult, score: ScoreResult, *, repeated: bool) -> tuple[str, ...]:
    """Return the cells from the accuracy on."""
    metrics = score.metrics
    return (
        accuracy_text(score, answers.repeats),
        f"{metrics['n']:,}",
        *((repeats_text(metrics, answers.repeats),) if repeated else ()),
        percent(metrics["unparsed_rate"]),
        percent(metrics["truncated_rate"]),
        f"{metrics['failed']:,}",
    )


def accuracy_text(score: ScoreResult, repeats: int) -> str:
    """Return the accuracy of a scoring with its standard error, and its name if questions had several answers."""
    metrics = score.metrics
    return average_text(metrics["accuracy"], metrics["accuracy_stderr"], repeats, scale=score.scale)


def answered_text(answers: AnswerSetResult) -> str:
    """Return how many of the answers there are."""
    return f"{answers.rows:,} of {answers.expected_rows:,} answers"


def _costs(answers: AnswerSetResult) -> tuple[str, ...]:
    speed = answers.tokens_per_second
    return (
        *(f"{answers.seconds[stage]:.1f}" if stage in answers.seconds else "" for stage in STAGES),
        "" if speed is None else f"{speed:,.0f}",
    )


def notes(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    """Yield benchmark and sentence for each reason to doubt a score."""
    titles = set_titles(evaluation)
    for answers in evaluation.answer_sets:
        for score in answers.scores:
            yield from ((titles[answers.answer_set_id], note) for note in score.notes)


# A result in one line: models, and each benchmark with its headline number.


def headline(evaluation: Evaluation) -> str:
    """Return one line: the model, and each benchmark with its headline accuracy, standard error, n, pass@k and maj@k.

    A benchmark without any scoring has its number of answers instead.
    """
    return _headline_of(evaluation, _headline) or _models(evaluation)


def short_headline(evaluation: Evaluation) -> str:
    """Return the models, and each benchmark with its accuracy and standard error, or its answers; empty without any."""
    return _headline_of(evaluation, lambda answers, score: accuracy_text(score, answers.repeats))


def _headline_of(
    evaluation: Evaluation, shown: Callable[[AnswerSetResult, ScoreResult], str]
) -> str:
    results = []
    for answers in evaluation.answer_sets:
        if not answers.scores:
            results.append(f"{answers.benchmark} {answered_text(answers)}")
        results += [
            f"{answers.benchmark} {shown(answers, score)}"
            for score in answers.scores
            if score.headline
        ]
    return f"{_models(evaluation)}: {', '.join(results)}" if results else ""


def _models(evaluation: Evaluation) -> str:
    return ", ".join(sorted({*model_names(evaluation).values()}))


def _headline(answers: AnswerSetResult, score: ScoreResult) -> str:
    metrics, repeats = score.metrics, answers.repeats
    shown = accuracy_text(score, repeats)
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
