"""`regrade list`."""

from typing import Any

from regrade.answers.sets import AnswerSet, list_sets
from regrade.cli.options import Answers
from regrade.cli.output import TABLE, Output, open_answers
from regrade.cli.terminal import plain, print_table, stdout
from regrade.reporting.tables import accuracy_text
from regrade.scoring.score import is_stale


def list_answers(*, answers: Answers = None, output: Output = TABLE) -> None:
    """List answer sets and their scores.

    Prints model, benchmark, rows, state and scores of each answer set, and marks stale scores.
    """
    repository, revision = open_answers(answers)
    entries = [_answer_set(answer_set) for answer_set in list_sets(repository, revision)]

    def draw() -> None:
        columns = ("answer set", "model", "benchmark", "rows", "complete", "scores")
        print_table(columns, map(_row, entries))
        stdout.print(f"{plain(repository.uri)} at {revision}")

    document = {"repository": repository.uri, "revision": revision, "answer_sets": entries}
    output.show(document, draw)


def _answer_set(answers: AnswerSet) -> dict[str, Any]:
    manifest = answers.manifest
    return {
        "answer_set_id": manifest.answer_set_id,
        "model": manifest.specification.model.name,
        "benchmark": manifest.specification.benchmark.name,
        "rows": manifest.rows,
        "expected_rows": manifest.n_samples * manifest.specification.repeats,
        "complete": manifest.state == "complete",
        "updated_at": manifest.updated_at.isoformat(timespec="seconds"),
        "scores": [
            {
                "scorer": file.scorer,
                "title": file.title,
                "version": file.version,
                "source_hash": file.source_hash,
                "accuracy": file.summary.overall.accuracy,
                "accuracy_stderr": file.summary.overall.accuracy_stderr,
                "n": file.summary.overall.n,
                "stale": is_stale(file, answers),
                "original": file.original.model_dump() if file.original else None,
                "intact_only": file.intact_only,
            }
            for file in answers.scores()
        ],
    }


def _row(answers: dict[str, Any]) -> tuple[str, ...]:
    return (
        answers["answer_set_id"],
        answers["model"],
        answers["benchmark"],
        f"{answers['rows']} of {answers['expected_rows']}",
        "yes" if answers["complete"] else "no",
        ", ".join(_score(score) for score in answers["scores"]) or "none",
    )


def _score(score: dict[str, Any]) -> str:
    note = score["intact_only"] or ("stale" if score["stale"] else "")
    shown = accuracy_text(score["accuracy"], score["accuracy_stderr"])
    return f"{score['title']} {shown} (n={score['n']}{note and f', {note}'})"
