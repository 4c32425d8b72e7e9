"""`regrade publish`."""

from typing import Any

from regrade.answers.opening import open_repository
from regrade.answers.publishing import Leftover, publish_leftovers
from regrade.cli.command_list import command
from regrade.cli.output import TABLE, Output
from regrade.cli.terminal import stderr, stdout
from regrade.settings.files import spool_root
from regrade.text.text import counted, visible


@command(group="Get answers", noun="answers")
def publish(*, answers: str | None = None, output: Output = TABLE) -> None:
    """Publish answers that earlier runs on this machine left in the spool.

    Needs no engine and no model.

    Args:
        answers: Only answers that belong to this repository.

    Examples:
        publish
    """
    only = open_repository(answers, create=True).uri if answers else None
    leftovers = list(publish_leftovers(only))
    published = [leftover.published for leftover in leftovers if leftover.published is not None]
    if published:
        # Only this needs Prefect, whose import takes a second.
        from regrade.orchestration.events import answers_published  # noqa: PLC0415

        answers_published(published)

    def draw() -> None:
        for answers in published:
            manifest = answers.manifest
            stdout.print(
                f"{manifest.answer_set_id} {visible(manifest.specification.benchmark.name)} · "
                f"{visible(manifest.specification.model.name)}: {counted(manifest.rows, 'row')}, {manifest.state}, "
                f"{f'{manifest.failed} failed, ' if manifest.failed else ''}"
                f"in {visible(answers.repository.uri)} at {answers.revision[:12]}"
            )
        if not leftovers:
            stdout.print(f"Nothing is left to publish in {spool_root()}.")

    output.show({"answer_sets": [_document(leftover) for leftover in leftovers]}, draw)
    failed = [leftover for leftover in leftovers if leftover.error is not None]
    for leftover in failed[:-1]:
        problem = f"not published, kept in '{leftover.folder}': {leftover.error}"
        stderr.print(visible(problem), style="yellow")
    if failed and (error := failed[-1].error):
        raise error


def _document(leftover: Leftover) -> dict[str, Any]:
    published = leftover.published
    return {
        "answer_set_id": leftover.folder.name,
        "repository": leftover.repository,
        "rows": published.manifest.rows if published else None,
        "state": published.manifest.state if published else None,
        "revision": published.revision if published else None,
        "problem": str(leftover.error) if leftover.error else None,
    }
