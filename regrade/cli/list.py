"""`regrade list`, `benchmarks` and `scorers`."""

from dataclasses import asdict
from typing import Any

from regrade import registry
from regrade.answers.sets import AnswerSet, list_sets
from regrade.benchmarks import benchmark_cards
from regrade.cli.options import Answers
from regrade.cli.output import TABLE, Output, open_answers
from regrade.cli.terminal import plain, print_table, stdout
from regrade.reporting.tables import percent
from regrade.scorers import load_scorer, scorer_names
from regrade.scoring.score import is_stale
from regrade.scoring.source_hash import source_hash


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


def benchmarks(*, output: Output = TABLE) -> None:
    """List the benchmarks with their versions and sources."""
    cards = benchmark_cards()
    broken = _broken("benchmark")

    def draw() -> None:
        for card in cards:
            stdout.print(
                f"[bold]{card.name}[/] v{card.version} · {card.source} · {card.method}, {card.format}, "
                f"{card.n_shots} shots · {', '.join(card.scorers)}"
            )
            stdout.print(f"    {card.description} {card.paper}".rstrip())
        _print_broken(broken)
        stdout.print(
            "[bold]dataset[/] any dataset on the Hub or in a file: see `--dataset.*` of `regrade evaluate --help`"
        )

    output.show({"benchmarks": [asdict(card) for card in cards], "broken": broken}, draw)


def scorers(*, output: Output = TABLE) -> None:
    """List the scorers with their versions and source hashes."""
    broken = _broken("scorer")
    usable = [
        {
            "name": name,
            "version": load_scorer(name).version,
            "source_hash": source_hash(name),
            "extracts": load_scorer(name).description,
            "unparsed": load_scorer(name).unparsed,
        }
        for name in scorer_names()
        if name not in broken
    ]

    def draw() -> None:
        for scorer in usable:
            stdout.print(
                f"[bold]{scorer['name']}[/] v{scorer['version']}, source {scorer['source_hash']}"
            )
            stdout.print(f"    reads     {plain(str(scorer['extracts']))}")
            stdout.print(f"    unparsed  {plain(str(scorer['unparsed']))}")
        _print_broken(broken)

    output.show({"scorers": usable, "broken": broken}, draw)


def _broken(kind: registry.Kind) -> dict[str, str]:
    """Return names from other packages that cannot be used, each with the reason."""
    return {error.name: error.problem for error in registry.broken(kind)}


def _print_broken(broken: dict[str, str]) -> None:
    for name, problem in broken.items():
        stdout.print(f"[bold]{plain(name)}[/] [red]cannot be used[/]: {plain(problem)}")


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
    return f"{score['title']} {percent(score['accuracy'])} (n={score['n']}{note and f', {note}'})"
