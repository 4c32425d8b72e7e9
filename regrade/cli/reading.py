"""Reading actual answers: what was asked, what came back, what the scorer read, what was right."""

from typing import Any

from rich.rule import Rule

from regrade.answers.sets import AnswerSet
from regrade.cli.terminal import plain, stdout
from regrade.errors import SettingsError
from regrade.scorers import load_scorer
from regrade.scorers.base import SHARED_COLUMNS

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

_NOT_SCORED = {"value": None, "extracted": None, "outcome": "not scored", "truncated": False}


def read_answers(
    answers: AnswerSet,
    scorer_name: str | None,
    *,
    wrong: bool,
    unparsed: bool,
    sample: str | None,
    limit: int,
) -> list[dict[str, Any]]:
    """Return answers with their score, in stored order.

    Args:
        answers: Answer set at a pinned revision.
        scorer_name: How to grade. None: not at all, as no scorer of the benchmark is installed.
        wrong: Only those with value below 1 (unparsed ones are wrong too).
        unparsed: Only those in which nothing could be read.
        sample: First digits of a sample id.
        limit: At most this many.
    """
    if limit < 1:
        raise SettingsError(f"`--limit {limit}` should be at least 1.")
    if scorer_name is None and (wrong or unparsed):
        load_scorer(answers.manifest.scorers[0])  # says why it cannot be used
    scorer = None if scorer_name is None else load_scorer(scorer_name)
    needed = list(dict.fromkeys([*SHARED_COLUMNS, *(scorer.columns if scorer else ())]))
    found: list[dict[str, Any]] = []
    for batch in answers.batches(list(dict.fromkeys([*SHOWN, *needed]))):
        scores = (
            scorer.score(batch.select(needed)).to_pylist() if scorer else [_NOT_SCORED] * len(batch)
        )
        for row, score in zip(batch.to_pylist(), scores, strict=True):
            if wrong and (score["value"] is None or score["value"] >= 1):
                continue
            if unparsed and score["outcome"] != "unparsed":
                continue
            if sample is not None and not row["sample_id"].startswith(sample):
                continue
            extracted = {
                name: score[name] for name in ("value", "extracted", "outcome", "truncated")
            }
            found.append({**{name: row[name] for name in SHOWN}, **extracted})
            if len(found) == limit:
                return found
    return found


def print_answer(row: dict[str, Any]) -> None:
    """Print one answer for a person; a model's text cannot reach the terminal's controls."""
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
