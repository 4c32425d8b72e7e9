"""`regrade export`."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from regrade.cli.command_list import command
from regrade.cli.options import Answers
from regrade.cli.output import TABLE, Output, open_set
from regrade.settings.errors import SettingsError

Format = Literal["every-eval-ever", "inspect"]
Relationship = Literal["first_party", "third_party", "collaborative", "other"]


@command(group="Hand on", noun="answers")
def export(
    answer_set: str,
    folder: Path,
    *,
    format: Annotated[Format, Parameter(name="--format")],  # noqa: A002 - the option's name
    answers: Answers = None,
    scorer: str | None = None,
    organization: str | None = None,
    relationship: Relationship | None = None,
    output: Output = TABLE,
) -> None:
    """Write an answer set in the format of another tool, and print the files.

    `inspect` is a log that `inspect view` opens; `every-eval-ever` is JSON for the data repository of that name.

    Args:
        answer_set: Answer set id (the first digits are enough), model or alias.
        folder: Folder for the files; created if it does not exist.
        format: Format of the files.
        scorer: Scorer of the exported scores; the headline's if not given.
        organization: Organization that evaluated, for `every-eval-ever`; the owner of the answer repository on the Hub if not
            given.
        relationship: Relationship of that organization to the model, for `every-eval-ever`; `other` if not given.

    Examples:
        export 1f0c6a2b exported/ --format every-eval-ever --organization 'My team'
    """
    if format == "inspect" and (organization or relationship):
        raise SettingsError("`--organization` and `--relationship` are for `every-eval-ever`.")
    # A refusal does not wait for these imports.
    from regrade.exchange.exporting.every_eval_ever import export_every_eval_ever  # noqa: PLC0415
    from regrade.exchange.exporting.inspect_log import export_inspect  # noqa: PLC0415
    from regrade.exchange.exporting.scored import fresh_result  # noqa: PLC0415

    scored = fresh_result(open_set(answers, answer_set), scorer)
    uri = scored.answers.repository.uri
    now = datetime.now(UTC)
    try:
        if format == "inspect":
            written = export_inspect(scored, folder, now)
        else:
            owner = uri.removeprefix("hf://datasets/").split("/")[0]
            if organization is None and "://" not in uri:
                raise SettingsError(
                    "The format names who evaluated: give `--organization NAME`. Answers on the Hub have an owner, a folder "
                    "has none."
                )
            written = export_every_eval_ever(
                scored,
                folder,
                now,
                organization=organization or owner,
                relationship=relationship or "other",
            )
    except OSError as error:
        raise SettingsError(f"'{folder}' cannot be written: {error.strerror}.") from error
    output.files(written)
    if scored.answers.manifest.withheld:
        sys.stderr.write("regrade: questions that must not be published are left out\n")
