"""`regrade show`."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from rich.rule import Rule

from regrade.answers.sets import AnswerSet, list_sets
from regrade.cli.options import Answers
from regrade.cli.output import TABLE, Output, open_answers
from regrade.cli.terminal import plain, stdout
from regrade.errors import SettingsError
from regrade.scorers import load_scorer
from regrade.scorers.base import SHARED_COLUMNS
from regrade.scoring.batches import with_prompt_format
from regrade.scoring.score import label_now

SHOWN = (
    "sample_id",
    "repeat",
    "index",
    "subset",
    "prompt",
    "target",
    "text",
    "reasoning",
    "label_logprobs",
    "error",
)
"""Columns of an answer in the JSON document."""
_NOT_SCORED = {"value": None, "extracted": None, "outcome": "not scored", "truncated": False}


def show(
    answer_set: str,
    *,
    answers: Answers = None,
    wrong: bool = False,
    unparsed: bool = False,
    sample: str | None = None,
    scorer: str | None = None,
    limit: int = 10,
    output: Output = TABLE,
) -> None:
    """Show the answers of an answer set.

    Prints the prompt, the answer, the text that the scorer extracted from it, and the target.

    Args:
        answer_set: Id of the answer set; the first digits are enough.
        wrong: Only wrong answers; unparsed ones are wrong too.
        unparsed: Only answers from which nothing could be extracted.
        sample: Only this sample; the first digits of its id are enough.
        scorer: Scorer to use; the benchmark's first installed scorer if not given.
        limit: Largest number of answers to show.
    """
    if limit < 1:
        raise SettingsError(f"`--limit {limit}` should be at least 1.")
    repository, revision = open_answers(answers)
    entry = list_sets(repository, revision, answer_set_id=answer_set)[0]
    name = scorer or next(filter(label_now, entry.manifest.scorers), None)
    if name is None and (wrong or unparsed):
        load_scorer(entry.manifest.scorers[0])  # raises the error with the reason
    matching = (
        row
        for row in _scored_rows(entry, name)
        if not (wrong and (row["value"] is None or row["value"] >= 1))
        and not (unparsed and row["outcome"] != "unparsed")
        and (sample is None or row["sample_id"].startswith(sample))
    )
    rows = list(islice(matching, limit))

    def draw() -> None:
        for row in rows:
            _print_answer(row)
        if not rows:
            stdout.print("No answer matches.")

    document = {"answer_set_id": entry.manifest.answer_set_id, "revision": revision}
    output.show({**document, "answers": rows}, draw)


def _scored_rows(answers: AnswerSet, scorer_name: str | None) -> Iterator[dict[str, Any]]:
    """Yield answers with their scores, in stored order; without scores if `scorer_name` is None."""
    scorer = load_scorer(scorer_name) if scorer_name else None
    columns = list(dict.fromkeys([*SHARED_COLUMNS, *(scorer.columns if scorer else ())]))
    for batch in answers.batches(list(dict.fromkeys([*SHOWN, *columns]))):
        scores = (
            scorer.score(with_prompt_format(batch.select(columns), answers)).to_pylist()
            if scorer
            else [_NOT_SCORED] * len(batch)
        )
        for row, score in zip(batch.to_pylist(), scores, strict=True):
            yield {
                **{name: row[name] for name in SHOWN},
                **{name: score[name] for name in _NOT_SCORED},
            }


def _print_answer(row: dict[str, Any]) -> None:
    """Print an answer, without control characters."""
    verdict = {"scored": "right" if row["value"] == 1 else "wrong"}.get(
        row["outcome"], row["outcome"]
    )
    colour = {"right": "green", "wrong": "red"}.get(verdict, "yellow")
    title = f"{row['sample_id']} repeat {row['repeat']} · {row['subset'] or 'no subset'} · [{colour}]{verdict}[/]"
    stdout.print(Rule(title, align="left"))
    if row["prompt"] is not None:
        stdout.print(plain(row["prompt"]), style="dim")
    if row["reasoning"]:
        stdout.print(plain(row["reasoning"]), style="dim italic")
    if row["text"] is not None:
        stdout.print(plain(row["text"]))
    if row["label_logprobs"] is not None:
        stdout.print(
            "log-probabilities: " + ", ".join(f"{value:.3f}" for value in row["label_logprobs"])
        )
    if row["error"] is not None:
        stdout.print(f"error: {plain(row['error'])}", style="red")
    extracted = "nothing" if row["extracted"] is None else plain(row["extracted"])
    target = "not known" if row["target"] is None else plain(row["target"])
    cut = ", cut off at max_tokens" if row["truncated"] else ""
    stdout.print(f"[bold]extracted[/] {extracted}   [bold]target[/] {target}{cut}\n")
