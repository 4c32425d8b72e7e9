"""`regrade promote`."""

from regrade.answers.aliases import move_alias
from regrade.answers.opening import open_repository
from regrade.answers.sets import AnswerSet
from regrade.cli.command_list import command
from regrade.cli.options import Answers, Benchmarks, TrackingUri
from regrade.cli.output import TABLE, Output, tag_runs
from regrade.comparing.sides import find_side
from regrade.settings.errors import SettingsError
from regrade.settings.view_address import default_answers
from regrade.text.blocks import Block, Line, Link, Table
from regrade.tracking.labels import move_alias_tag


@command(group="Compare and decide")
def promote(
    answer_set_or_model: str,
    *,
    alias: str = "baseline",
    benchmark: Benchmarks = (),
    answers: Answers = None,
    tracking_uri: TrackingUri = None,
    output: Output = TABLE,
) -> None:
    """Make an answer set or a model the baseline.

    Points the alias to the answer set, or to the model's complete answer set with the most questions of each benchmark,
    and of several to the newest. The alias does not change for other benchmarks. Runs in MLflow are tagged with it.

    Args:
        answer_set_or_model: Answer set id, model, or another alias.
        alias: Name of the alias.

    Examples:
        promote org/model
        promote 1f0c6a2b --alias release
    """
    uri = answers or default_answers()
    side = find_side(answer_set_or_model, uri, benchmark)
    for name, found in side.sets.items():
        if not found.manifest.rows:
            raise SettingsError(
                f"Answer set '{found.manifest.answer_set_id}' ({name}) holds no answer: nothing could be compared with it. Name "
                "another one, or a model, which stands for its complete answer sets."
            )
    repository = open_repository(uri, create=True)
    moved, revision = move_alias(repository, alias, list(side.sets.values()))
    tagged = tag_runs(
        tracking_uri, uri, lambda mlflow: move_alias_tag(mlflow, alias, moved.answer_sets)
    )

    def draw() -> list[Block]:
        rows = [
            (alias, name, found, _described(side.sets[name]) if name in side.sets else "as before")
            for name, found in moved.answer_sets.items()
        ]
        columns = ("alias", "benchmark", "answer set", "answers")
        place = (Link(repository.uri, None), f" at {revision}")
        return [Table(columns, rows, columns), Line(place)]

    document = moved.model_dump(mode="json")
    questions = {name: answers.manifest.n_samples for name, answers in side.sets.items()}
    result = {"questions": questions, "revision": revision, "tagged_runs": tagged or 0}
    output.show({**document, **result}, draw)


def _described(answers: AnswerSet) -> str:
    manifest = answers.manifest
    repeats = manifest.specification.repeats
    each = f", {repeats} answers to each" if repeats > 1 else ""
    day = f"{manifest.created_at:%Y-%m-%d}"
    lacks = manifest.state != "complete"
    only = f", incomplete: {manifest.answered}" if lacks else ""
    model = manifest.specification.model.name
    return f"{model}, n={manifest.n_samples:,} questions{each}, {day}{only}"
