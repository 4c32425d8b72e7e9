"""`regrade compare`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.rule import Rule

from regrade.cli.options import Answers, Json
from regrade.cli.output import new_table, print_json
from regrade.cli.terminal import plain, stdout
from regrade.comparing.comparison import HowToCompare
from regrade.comparing.models import Cluster, Comparison, Comparisons, FlipExample
from regrade.comparing.together import compare_sides
from regrade.errors import SettingsError
from regrade.job import default_answers
from regrade.reporting.comparisons import (
    COLUMNS,
    beside,
    comparison_row,
    comparisons_markdown,
    remarks,
)
from regrade.reporting.diffs import tail
from regrade.reporting.files import write_page
from regrade.settings import Difference

Allow = Annotated[
    tuple[Difference, ...],
    Parameter(
        negative="",
        show_default=False,
        help="A difference between the two sides that is meant; others are refused. May be given several times.",
    ),
]
Benchmarks = Annotated[
    tuple[str, ...],
    Parameter(
        negative="", show_default=False, help="Only this benchmark; may be given several times."
    ),
]


def compare(
    base: str,
    candidate: str,
    *,
    answers: Answers = None,
    base_answers: str | None = None,
    benchmark: Benchmarks = (),
    allow: Allow = (),
    min_coverage: float | None = None,
    scorer: str | None = None,
    clusters: Cluster = "question",
    examples: int = 3,
    markdown: Path | None = None,
    json: Json = False,
) -> None:
    """Compare two answer sets, or two models on every benchmark that both have complete answers to.

    Args:
        base: Answer set id, model, or alias such as `baseline`.
        candidate: The same.
        answers: Answer repository.
        base_answers: Answer repository of the baseline, if it is another one.
        benchmark: Only this benchmark.
        allow: A difference that is meant.
        min_coverage: Percent of the questions that have to be compared; 90 if not given.
        scorer: How both sides are graded; the baseline's first scorer if not given.
        clusters: What is independent; `subset` where subsets are passages with several questions each.
        examples: Examples of what flipped to show, of each kind.
        markdown: File to write the comparison to as a page.
        json: Print JSON.
    """
    if examples < 0:
        raise SettingsError(f"`--examples {examples}` should be 0 or more.")
    if min_coverage is not None and not 0 <= min_coverage <= 100:
        raise SettingsError(f"`--min-coverage {min_coverage:g}` should be a percentage.")
    how = HowToCompare(
        allow=allow,
        min_coverage=None if min_coverage is None else min_coverage / 100,
        scorer=scorer,
        cluster=clusters,
        examples=examples,
    )
    found = compare_sides(
        base,
        candidate,
        answers=answers or default_answers(),
        base_answers=base_answers,
        benchmarks=benchmark,
        how=how,
    ).comparisons
    if markdown is not None:
        write_page(markdown, comparisons_markdown(found))
    if json:
        print_json(found.model_dump(mode="json"))
    else:
        _print(found)
    if not found.compared:
        why = " ".join(beside(found)) or "the two have no benchmark in common"
        raise SettingsError(f"Nothing could be compared: {why}")


def _print(found: Comparisons) -> None:
    table = new_table(*COLUMNS)
    for one in found.compared:
        table.add_row(*(plain(cell) for cell in comparison_row(one)))
    if found.compared:
        stdout.print(table)
    for one in found.compared:
        stdout.print(f"\n[bold]{plain(one.benchmark)}[/]")
        for text in remarks(one):
            stdout.print(f"  {plain(text)}")
        print_examples(one)
    for text in beside(found) if found.compared else ():
        stdout.print(f"[yellow]not compared[/] {plain(text)}")


def print_examples(one: Comparison) -> None:
    """Print what flipped."""
    for example in one.examples:
        where = f"{example.question}{' · ' + example.subset if example.subset else ''}"
        stdout.print(Rule(f"[yellow]{example.kind}[/] · {plain(where)}", align="left"))
        _print_example(example)


def _print_example(example: FlipExample) -> None:
    stdout.print(plain(tail(example.prompt or "")), style="dim")
    for name, text, read in (
        ("baseline", example.base_text, example.base_extracted),
        ("candidate", example.candidate_text, example.candidate_extracted),
    ):
        said = "nothing" if read is None else plain(tail(read))
        stdout.print(f"[bold]{name}[/], read: {said}")
        stdout.print(plain(tail(text or "")))
    stdout.print(f"[bold]target[/] {plain(tail(example.target or '-'))}\n")
