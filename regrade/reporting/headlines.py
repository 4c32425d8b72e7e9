"""A result in one line: models, and each benchmark with its headline number."""

from collections.abc import Callable

from regrade.reporting.numbers import percent, repeats_text
from regrade.reporting.results import AnswerSetResult, Evaluation, ScoreResult
from regrade.reporting.tables import accuracy_text, answered_text, model_names
from regrade.scoring.fit import is_cut_short


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
