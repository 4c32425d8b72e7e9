"""`regrade diff`."""

from typing import Annotated

from cyclopts import Parameter

from regrade.cli.command_list import command
from regrade.cli.options import Answers, Sandbox, scoring_options
from regrade.cli.output import TABLE, Output, open_set
from regrade.scoring.diff_sides import diff_scorings
from regrade.scoring.diff_text import blocks
from regrade.settings.errors import SettingsError


@command(group="Grade and read")
def diff(
    answer_set: str,
    *,
    answers: Answers = None,
    before: Annotated[str | None, Parameter(name=("--baseline", "--from"))] = None,
    after: Annotated[str | None, Parameter(name="--to")] = None,
    subset: str | None = None,
    examples: int = 3,
    sandbox: Sandbox = None,
    output: Output = TABLE,
) -> None:
    """Compare two scorings of the same answers, such as before and after a change of the scorer.

    By default, the newest stored scoring is compared with the scorer as installed.

    Args:
        answer_set: Answer set id (the first digits are enough), model or alias; of several answer sets the newest.
        before: Stored scoring (`number-1-0a1b2c3d`), `scorer@version`, or a scorer: its newest stored scoring.
        after: Stored scoring, `scorer@version`, or a scorer as installed or in a file (`path/to/file.py:name`).
        subset: Only answers of this subset.
        examples: Number of examples to show of each kind of change.

    Examples:
        diff 1f0c6a2b
        diff 1f0c6a2b --baseline number@1 --to number
    """
    if examples < 0:
        raise SettingsError(f"`--examples {examples}` should be 0 or more.")
    comparison = diff_scorings(
        open_set(answers, answer_set, newest=True),
        before,
        after,
        subset=subset,
        examples=examples,
        options=scoring_options(sandbox),
    )
    output.show(comparison.model_dump(mode="json"), lambda: blocks(comparison))
