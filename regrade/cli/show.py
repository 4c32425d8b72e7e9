"""`regrade show`."""

from typing import Annotated

from cyclopts import Parameter

from regrade.answers.sets import list_sets
from regrade.cli.options import Answers, Json
from regrade.cli.output import open_answers, print_json
from regrade.cli.reading import print_answer, read_answers
from regrade.cli.terminal import stdout
from regrade.scoring.score import label_now


def show(
    answer_set: str,
    *,
    answers: Answers = None,
    wrong: Annotated[bool, Parameter(negative="")] = False,
    unparsed: Annotated[bool, Parameter(negative="")] = False,
    sample: str | None = None,
    scorer: str | None = None,
    limit: int = 10,
    json: Json = False,
) -> None:
    """Read actual answers of one answer set, with what the scorer read out of them and the target.

    Args:
        answers: Answer repository.
        answer_set: Id of the answer set; the first digits are enough.
        wrong: Only answers that count as wrong.
        unparsed: Only answers in which nothing could be read.
        sample: Only this sample; the first digits of its id are enough.
        scorer: Grade with this scorer; the benchmark's first installed one if not given.
        limit: Answers to show at most.
        json: Print JSON.
    """
    repository, revision = open_answers(answers)
    entry = list_sets(repository, revision, answer_set_id=answer_set)[0]
    rows = read_answers(
        entry,
        scorer or next(filter(label_now, entry.manifest.scorers), None),
        wrong=wrong,
        unparsed=unparsed,
        sample=sample,
        limit=limit,
    )
    if json:
        print_json(
            {"answer_set_id": entry.manifest.answer_set_id, "revision": revision, "answers": rows}
        )
        return
    for row in rows:
        print_answer(row)
    if not rows:
        stdout.print("No answer fits.")
