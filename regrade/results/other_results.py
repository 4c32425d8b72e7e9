"""The table of results beside the accuracy, such as the strict and the loose reading of instructions."""

from collections.abc import Iterator

from regrade.results.results import Evaluation, ScoreResult
from regrade.results.tables import set_titles
from regrade.stats.named import Aggregate
from regrade.text.layout import Table

_COLUMNS = ("benchmark", "scorer", "part", "result", "value", "n")
MOST_ROWS = 40
"""Rows of a scoring that are shown; `--json` has all."""


def other_table(evaluation: Evaluation) -> Table:
    """Return a row per result. Values keep the scale that the scorer gives them."""
    return Table(_COLUMNS, list(_rows(evaluation)), _COLUMNS[:4], headings=_COLUMNS[:2])


def _rows(evaluation: Evaluation) -> Iterator[tuple[str, ...]]:
    titles = set_titles(evaluation)
    for answers in evaluation.answer_sets:
        title = titles[answers.answer_set_id]
        for score in answers.scores:
            shown = score.other_results[:MOST_ROWS]
            for result in shown:
                error = "" if result.stderr is None else f" ± {result.stderr:.4f}"
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
    """Return in brackets what labels say about a further field of a judge's verdict; "" for other results."""
    fields = {} if score.calibrated is None else score.calibrated.fields
    found = None if result.subset else fields.get(result.name)
    if found is None:
        return ""
    return f" ({found.text})" if found.method is None else f" (by people's labels {found.text})"
