"""`regrade promote`."""

from regrade.answers.aliases import move_alias
from regrade.answers.opening import open_repository
from regrade.cli.compare import Benchmarks
from regrade.cli.options import Answers, Json, TrackingUri
from regrade.cli.output import print_json
from regrade.cli.tagging import tag_runs
from regrade.cli.terminal import plain, stdout
from regrade.comparing.sides import find_side
from regrade.job import default_answers
from regrade.tracking.labels import move_alias_tag


def promote(
    answer_set_or_model: str,
    *,
    alias: str = "baseline",
    benchmark: Benchmarks = (),
    answers: Answers = None,
    tracking_uri: TrackingUri = None,
    json: Json = False,
) -> None:
    """Let an alias stand for an answer set, or for a model's newest complete one of each benchmark.

    Benchmarks that it has no answers to keep what the alias stood for.

    Args:
        answer_set_or_model: Answer set id, model, or another alias.
        alias: Name of the alias.
        benchmark: Only this benchmark.
        answers: Answer repository, which keeps the alias.
        tracking_uri: MLflow server or database, where the runs are tagged with the alias.
        json: Print JSON.
    """
    where = answers or default_answers()
    side = find_side(answer_set_or_model, where, benchmark)
    repository = open_repository(where, create=True)
    moved, revision = move_alias(repository, alias, list(side.sets.values()))
    tagged = tag_runs(
        tracking_uri, where, lambda uri: move_alias_tag(uri, alias, moved.answer_sets)
    )
    if json:
        document = moved.model_dump(mode="json")
        print_json({**document, "revision": revision, "tagged_runs": tagged or 0})
        return
    for name, answer_set_id in moved.answer_sets.items():
        kept = "" if name in side.sets else " (as before)"
        stdout.print(f"{plain(alias)}  {plain(name)}  {answer_set_id}{kept}")
    stdout.print(f"{plain(repository.uri)} at {revision}")
