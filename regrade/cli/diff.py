"""`regrade diff`."""

from typing import Annotated

from cyclopts import Parameter
from rich.rule import Rule

from regrade.answers.sets import list_sets
from regrade.cli.options import Answers, Sandbox, scoring_options
from regrade.cli.output import TABLE, Output, open_answers
from regrade.cli.terminal import plain, print_table, stdout
from regrade.scoring.diff import Diff, Example
from regrade.scoring.diff_sides import diff_scorings
from regrade.scoring.diff_text import COUNTS, change_text, table_rows, what_changed
from regrade.settings.errors import SettingsError
from regrade.text.text import tail


def diff(
    answer_set: str,
    *,
    answers: Answers = None,
    before: Annotated[str | None, Parameter(name="--from")] = None,
    after: Annotated[str | None, Parameter(name="--to")] = None,
    subset: str | None = None,
    examples: int = 3,
    sandbox: Sandbox = None,
    output: Output = TABLE,
) -> None:
    """Compare two scorings of the same answers, such as before and after a change of the scorer.

    By default, the newest stored scoring is compared with the scorer as installed.

    Args:
        answer_set: Id of the answer set; the first digits are enough.
        before: Stored scoring (`number-1-0a1b2c3d`), `scorer@version`, or a scorer: its newest stored scoring.
        after: Stored scoring, `scorer@version`, or a scorer as installed or in a file (`path/to/file.py:name`).
        subset: Only answers of this subset.
        examples: Number of examples to show of each kind of change.
    """
    if examples < 0:
        raise SettingsError(f"`--examples {examples}` should be 0 or more.")
    repository, revision = open_answers(answers)
    entry = list_sets(repository, revision, answer_set_id=answer_set)[0]
    comparison = diff_scorings(
        entry,
        before,
        after,
        subset=subset,
        examples=examples,
        options=scoring_options(sandbox),
    )
    output.show(comparison.model_dump(mode="json"), lambda: _print(comparison))


def _print(comparison: Diff) -> None:
    stdout.print(f"[bold]{plain(comparison.benchmark)} · {plain(comparison.model)}[/]")
    stdout.print(plain(what_changed(comparison)))
    for side in (comparison.before, comparison.after):
        state = f"stored {side.scored_at}" if side.stored else "scored just now, not stored"
        stdout.print(f"  {side.label}  {state}")
    stdout.print(f"accuracy {change_text(comparison.overall, comparison.scale)}")
    print_table(("answers", *COUNTS, "accuracy"), table_rows(comparison))
    for example in comparison.examples:
        _print_example(example)


def _print_example(example: Example) -> None:
    title = f"{example.sample_id} repeat {example.repeat} · {example.subset or 'no subset'}"
    stdout.print(Rule(f"[yellow]{example.kind}[/] · {plain(title)}", align="left"))
    stdout.print(plain(tail(example.prompt or "no prompt stored")), style="dim")
    if example.text is not None:
        stdout.print(plain(tail(example.text)))
    before, after = (
        "nothing" if read is None else plain(tail(read))
        for read in (example.extracted_before, example.extracted_after)
    )
    target = plain(tail(example.target or "-"))
    stdout.print(
        f"[bold]read before[/] {before}   [bold]now[/] {after}   [bold]target[/] {target}\n"
    )
