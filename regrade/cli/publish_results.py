"""`regrade publish-results`."""

import re
from collections.abc import Iterator
from dataclasses import asdict

from regrade.answers.sets import readable_sets
from regrade.cli.command_list import command
from regrade.cli.options import Answers, Benchmarks
from regrade.cli.output import TABLE, Output, open_answers
from regrade.comparing.sides import named_id
from regrade.settings.errors import SettingsError
from regrade.text.blocks import Block, Line, Quote, Table, with_code

_MODEL = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*", re.ASCII)


@command(group="Hand on", noun="answers")
def publish_results(
    model: str,
    *,
    answers: Answers = None,
    benchmark: Benchmarks = (),
    answer_set: str | None = None,
    pull_request: bool = False,
    commit: bool = False,
    replace: bool = False,
    output: Output = TABLE,
) -> None:
    """Write results into a model's repository on the Hub, for its page and the leaderboards.

    Without `--pull-request` or `--commit`, the files are only shown. A result is published if its benchmark takes part, the
    run is complete, and its answers are in a repository on the Hub.

    Args:
        model: Model on the Hub, `ORG/NAME`.
        answer_set: Only this answer set: id (the first digits are enough), model or alias.
        pull_request: Propose the files as a pull request.
        commit: Commit the files to the model's repository.
        replace: Replace a result for the same task that came from elsewhere.

    Examples:
        publish-results org/model --pull-request
    """
    if not _MODEL.fullmatch(model):
        raise SettingsError(f"'{model}' should be a model on the Hub, ORG/NAME.")
    if pull_request and commit:
        raise SettingsError(
            "`--pull-request` proposes the files, `--commit` writes them: choose one."
        )
    # A refusal does not wait for these imports.
    from regrade.exchange.exporting.hub_results import hub_results  # noqa: PLC0415
    from regrade.exchange.exporting.model_repository import ModelRepository  # noqa: PLC0415

    repository, revision = open_answers(answers)
    if answer_set is not None:
        answer_set = named_id(repository, revision, answer_set)
    found, damaged = readable_sets(repository, revision, model=model, answer_set_id=answer_set)
    if damaged:
        raise damaged[0]
    chosen = [
        result
        for result in found
        if not benchmark or result.manifest.specification.benchmark.name in benchmark
    ]
    results, left_out = hub_results(model, chosen)
    reasons = [f"{left.benchmark} {left.answer_set_id[:8]}: {left.reason}" for left in left_out]
    if not results:
        why = "; ".join(reasons) or "There are no such answers."
        raise SettingsError(f"No result of '{model}' can be published. {why}")
    target = ModelRepository(model)
    planned = target.plan(results, replace=replace)
    url = None
    if planned.files and (pull_request or commit):
        url = target.write(planned, "pull request" if pull_request else "commit")

    def draw() -> Iterator[Block]:
        rows = [
            (
                result.benchmark,
                f"{result.value:.2f} of {result.part.scale:g}",
                result.part.dataset,
                result.notes,
            )
            for result in results
        ]
        columns = ("benchmark", "value", "leaderboard", "notes")
        if url is None and planned.files:
            end = "Nothing is written yet: `--pull-request` proposes it, `--commit` writes it."
        else:
            end = url or "The model's repository has these results already."
        yield Table(columns, rows, columns, headings=columns[:1], lists=columns[-1:])
        yield from (Line(f"left out {reason}", "doubt") for reason in reasons)
        yield from (Quote(path, content) for path, content in planned.files.items())
        yield Line(with_code(end))

    document = {
        "model": model,
        "repository": repository.uri,
        "revision": revision,
        "results": [asdict(result) for result in results],
        "left_out": [asdict(left) for left in left_out],
        "files": planned.files,
        "url": url,
    }
    output.show(document, draw)
