"""`regrade list`."""

from typing import Any

from regrade.answers.sets import list_sets
from regrade.cli.options import Answers, Json
from regrade.cli.output import new_table, open_answers, print_json
from regrade.cli.terminal import plain, stdout
from regrade.reporting.tables import percent
from regrade.scoring.score import is_stale


def list_answers(*, answers: Answers = None, json: Json = False) -> None:
    """List answer sets: model, benchmark, rows, state, scores, and which scores are stale."""
    repository, revision = open_answers(answers)
    found: list[dict[str, Any]] = []
    for entry in list_sets(repository, revision):
        manifest = entry.manifest
        found.append(
            {
                "answer_set_id": manifest.answer_set_id,
                "model": manifest.specification.model.name,
                "benchmark": manifest.specification.benchmark.name,
                "rows": manifest.rows,
                "expected_rows": manifest.n_samples * manifest.specification.repeats,
                "complete": manifest.state == "complete",
                "updated_at": manifest.updated_at.isoformat(timespec="seconds"),
                "scores": [
                    {
                        "scorer": one.scorer,
                        "title": one.title,
                        "version": one.version,
                        "source_hash": one.source_hash,
                        "accuracy": one.summary.overall.accuracy,
                        "accuracy_stderr": one.summary.overall.accuracy_stderr,
                        "n": one.summary.overall.n,
                        "stale": is_stale(one, entry),
                        "original": one.original.model_dump() if one.original else None,
                        "intact_only": one.intact_only,
                    }
                    for one in entry.scores()
                ],
            }
        )
    if json:
        print_json({"repository": repository.uri, "revision": revision, "answer_sets": found})
        return
    table = new_table("answer set", "model", "benchmark", "rows", "complete", "scores")
    for one in found:
        table.add_row(
            one["answer_set_id"],
            plain(one["model"]),
            plain(one["benchmark"]),
            f"{one['rows']} of {one['expected_rows']}",
            "yes" if one["complete"] else "no",
            ", ".join(_score(score) for score in one["scores"]) or "none",
        )
    stdout.print(table)
    stdout.print(f"{plain(repository.uri)} at {revision}")


def _score(score: dict[str, Any]) -> str:
    stale = (
        f", {score['intact_only']}" if score["intact_only"] else ", stale" if score["stale"] else ""
    )
    return f"{plain(score['title'])} {percent(score['accuracy'])} (n={score['n']}{stale})"
