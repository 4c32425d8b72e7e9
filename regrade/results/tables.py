"""Tables of results: accuracy with its standard error, counts, seconds."""

from collections import Counter
from collections.abc import Callable, Iterator

from regrade.answers.figures import figures_in
from regrade.records.specification import named_apart
from regrade.results.results import AnswerSetResult, Evaluation, ScoreResult
from regrade.scoring.fit import is_cut_short
from regrade.stats.numbers import average_text, repeats_text
from regrade.stats.scale import percent
from regrade.text.blocks import Table

STAGES = ("load", "generate", "publish", "score", "track")
_REPEATS, _CALIBRATED = "with repeats", "by people's labels"


def score_table(evaluation: Evaluation) -> Table:
    """Return a row per scoring."""
    repeated, labelled = has_repeats(evaluation), has_calibrations(evaluation)
    names = model_names(evaluation)
    rows = []
    for answers in evaluation.answer_sets:
        for score in answers.scores:
            accuracy, *counts = _results(answers, score, repeated=repeated)
            corrected = [score.calibrated.text if score.calibrated else ""]
            name = f"{score.scorer} v{score.version}"
            cells = (
                names[answers.answer_set_id],
                answers.benchmark,
                accuracy,  # first, so that a narrow window shows it
                *(corrected if labelled else []),
                name + (f", {score.intact_only}" if score.intact_only else ""),
                *counts,
            )
            rows.append(cells)
    columns = (
        *("model", "benchmark", "accuracy"),
        *([_CALIBRATED] if labelled else []),
        *("scorer", "n"),
        *([_REPEATS] if repeated else []),
        *("unparsed", "truncated", "failed"),
    )
    return Table(
        columns,
        rows,
        (*columns[:2], "scorer", _REPEATS, _CALIBRATED),
        headings=columns[:2],
        lists=(_REPEATS,),
    )


def _token_columns(evaluation: Evaluation) -> tuple[str, ...]:
    """Return the columns of `_tokens`: for judges, or if a price is known."""
    sets = evaluation.answer_sets
    shown = any(answers.judged is not None or answers.cost is not None for answers in sets)
    return ("tokens in", "tokens out", "cost") if shown else ()


def _tokens(answers: AnswerSetResult) -> tuple[str, ...]:
    cost = "" if answers.cost is None else f"{answers.cost:,.4f}"
    tokens = (answers.figures.get(name) or 0 for name in ("prompt_tokens", "completion_tokens"))
    return *(f"{count:,.0f}" for count in tokens), cost


def cost_table(evaluation: Evaluation) -> Table:
    """Return a row per answer set with the seconds that this run took for it; tokens and price of judges, or if known."""
    names, tokens = titles(evaluation), _token_columns(evaluation)
    figures = figures_in("page")
    rows = []
    for answers in evaluation.answer_sets:
        shown = (figure.text(answers.figures.get(figure.name)) for figure in figures)
        cells = (*_costs(answers), *(_tokens(answers) if tokens else ()), *shown)
        if any(cells):
            rows.append((names[answers.answer_set_id], *cells))
    headings = (figure.heading for figure in figures)
    return Table(("seconds", *STAGES, "tokens/s", *tokens, *headings), rows)


def generated_table(evaluation: Evaluation) -> Table:
    """Return a row per answer set that was not scored."""
    names = model_names(evaluation)
    rows = [
        (
            names[answers.answer_set_id],
            answers.benchmark,
            f"{answers.rows:,} of {answers.expected_rows:,}",
            f"{answers.generated:,}",
            f"{answers.failed + answers.refused:,}",
            answers.answer_set_id,
        )
        for answers in evaluation.answer_sets
        if not answers.scores
    ]
    columns = ("model", "benchmark", "answers", "new", "failed", "answer set")
    return Table(columns, rows, (*columns[:2], "answer set"), headings=columns[:2])


def lowest_table(evaluation: Evaluation) -> Table:
    """Return the subsets with the lowest accuracy of each headline number."""
    names = titles(evaluation)
    rows = [
        (
            names[answers.answer_set_id],
            subset.name,
            score.scale.mean_text(subset.accuracy, subset.accuracy_stderr),
            f"{subset.n:,}",
        )
        for answers in evaluation.answer_sets
        for score in answers.scores
        if score.headline
        for subset in score.lowest
    ]
    return Table(("benchmark", "subset", "accuracy", "n"), rows, ("benchmark", "subset"))


def captions(evaluation: Evaluation) -> Iterator[str]:
    """Yield what a reader of the table has to know: incomplete answers, and what `n` counts."""
    for answers in evaluation.answer_sets:
        if answers.stopped is not None:
            yield f"{answers.benchmark} · {answers.model}: {answers.stopped.saved}"
        elif answers.rows < answers.expected_rows:
            yield f"{answers.benchmark} · {answers.model}: incomplete, {answered_text(answers)}."
    if has_repeats(evaluation):
        yield "n counts answers; the error is that of the questions."


def titles(evaluation: Evaluation) -> dict[str, str]:
    """Return a title for each answer set id: its benchmark, the model if there are several, and the id if that is not enough."""
    names = model_names(evaluation)
    several = len({*names.values()}) > 1
    named = {
        answers.answer_set_id: answers.benchmark
        + (f" · {names[answers.answer_set_id]}" if several else "")
        for answers in evaluation.answer_sets
    }
    count = Counter(named.values())
    return {
        set_id: title if count[title] == 1 else f"{title} · {set_id[:8]}"
        for set_id, title in named.items()
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
    """Return how many of the answers there are, or at which verdict the rest was left out."""
    if answers.stopped is not None:
        return answers.stopped.text
    return f"{answers.rows:,} of {answers.expected_rows:,} answers"


def _costs(answers: AnswerSetResult) -> tuple[str, ...]:
    speed = answers.tokens_per_second
    return (
        *(f"{answers.seconds[stage]:.1f}" if stage in answers.seconds else "" for stage in STAGES),
        "" if speed is None else f"{speed:,.0f}",
    )


def notes(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    """Yield the title of an answer set and a sentence for each reason to doubt a score."""
    named = titles(evaluation)
    for answers in evaluation.answer_sets:
        for score in answers.scores:
            yield from ((named[answers.answer_set_id], note) for note in score.notes)


# A result in one line: models, and each benchmark with its headline number.


def headline(evaluation: Evaluation) -> str:
    """Return one line: the model, and each benchmark with its headline accuracy, standard error, n, pass@k and maj@k.

    A benchmark without any scoring has its number of answers instead.
    """
    return _headline_of(evaluation, _headline) or ", ".join(
        dict.fromkeys(model_names(evaluation).values())
    )


def short_headline(evaluation: Evaluation) -> str:
    """Return the models, and each benchmark with its accuracy and standard error, or its answers; empty without any."""
    return _headline_of(evaluation, lambda answers, score: accuracy_text(score, answers.repeats))


def _headline_of(
    evaluation: Evaluation, shown: Callable[[AnswerSetResult, ScoreResult], str]
) -> str:
    names = model_names(evaluation)
    results: dict[str, list[str]] = {}
    for answers in evaluation.answer_sets:
        of_model = results.setdefault(names[answers.answer_set_id], [])
        if not answers.scores:
            of_model.append(f"{answers.benchmark} {answered_text(answers)}")
        of_model += [
            f"{answers.benchmark} {shown(answers, score)}"
            for score in answers.scores
            if score.headline
        ]
    return "; ".join(f"{model}: {', '.join(found)}" for model, found in results.items() if found)


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
