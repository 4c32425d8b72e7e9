"""`regrade publish`."""

from typing import Annotated

from cyclopts import Parameter

from regrade.answers.leftovers import publish_leftovers
from regrade.answers.opening import open_repository
from regrade.answers.spool import spool_root
from regrade.cli.options import Json
from regrade.cli.output import print_json
from regrade.cli.terminal import plain, stderr, stdout


def publish(
    *,
    answers: Annotated[str | None, Parameter(help="Only what belongs to this repository.")] = None,
    json: Json = False,
) -> None:
    """Publish answers that earlier runs on this machine left in the spool. No engine, no model.

    Args:
        answers: Only what belongs to this repository.
        json: Print JSON.
    """
    only = open_repository(answers, create=True).uri if answers else None
    found = list(publish_leftovers(only))
    failed = [one for one in found if one.error is not None]
    if published := [one.published for one in found if one.published is not None]:
        # Prefect takes a second to import, and is needed only here.
        from regrade.orchestration.events import answers_published  # noqa: PLC0415

        answers_published(published)
    if json:
        print_json(
            {
                "answer_sets": [
                    {
                        "answer_set_id": one.folder.name,
                        "repository": one.repository,
                        "rows": one.published.manifest.rows if one.published else None,
                        "state": one.published.manifest.state if one.published else None,
                        "revision": one.published.revision if one.published else None,
                        "problem": str(one.error) if one.error else None,
                    }
                    for one in found
                ]
            }
        )
    else:
        for one in found:
            if one.published is not None:
                manifest = one.published.manifest
                stdout.print(
                    f"{manifest.answer_set_id} {plain(manifest.specification.benchmark.name)} · "
                    f"{plain(manifest.specification.model.name)}: {manifest.rows} rows, {manifest.state}, "
                    f"in {plain(str(one.repository))} at {one.published.revision[:12]}"
                )
        if not found:
            stdout.print(f"Nothing is left to publish in {spool_root()}.")
    for one in failed[:-1]:
        stderr.print(plain(f"not published, kept in '{one.folder}': {one.error}"), style="yellow")
    if failed and (error := failed[-1].error):
        raise error
