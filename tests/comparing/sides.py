"""Answer sets with a known number of right answers, for tests of comparisons and gates."""

from typing import Any

from regrade.answers.base import Repository
from regrade.answers.sets import AnswerSet
from regrade.records.specification import PromptIdentity
from regrade.settings import SamplingParams
from tests.builders import row
from tests.stored import publish

TOTAL = 400


def answer(
    repository: Repository,
    model: str,
    *,
    right: int = 0,
    wrong: tuple[int, ...] | None = None,
    total: int = TOTAL,
    start: int = 0,
    unparsed: int = 0,
    unparsed_text: str = "I do not know.",
    repeats: int = 1,
    temperature: float = 0.0,
    n_shots: int = 0,
    declared: int | None = None,
    row_changes: dict[str, Any] | None = None,
    **changes: Any,
) -> AnswerSet:
    """Publish answers to the questions from `start` on; wrong are those in `wrong`, else all after the first `right`."""
    rows = []
    for number in range(start, start + total):
        bad = number in wrong if wrong is not None else number - start >= right
        for repeat in range(repeats):
            text = f"#### {number + 1}" if bad else ""
            if number - start >= total - unparsed:
                text = unparsed_text
            rows.append(row(number, text, repeat=repeat, **(row_changes or {})))
    changes.setdefault(
        "prompt", PromptIdentity(format="chat", template="{{ question }}", n_shots=n_shots)
    )
    changes.setdefault("sampling", SamplingParams(temperature=temperature))
    return publish(
        repository, rows, total=declared or total, model=model, repeats=repeats, **changes
    )
