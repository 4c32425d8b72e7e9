"""`regrade verify`."""

from dataclasses import asdict

from regrade.answers.documents import NotIntactError
from regrade.answers.local import LocalRepository
from regrade.answers.opening import newest_revision, open_repository
from regrade.answers.verify import verify as verify_repository
from regrade.cli.command_list import command
from regrade.cli.options import Answers
from regrade.cli.output import TABLE, Output
from regrade.cli.terminal import stdout
from regrade.comparing.sides import named_id
from regrade.settings.view_address import default_answers
from regrade.text.text import counted, visible


@command(group="Hand on", noun="answers")
def verify(
    answer_set: str | None = None,
    *,
    answers: Answers = None,
    revision: str | None = None,
    sweep: bool = False,
    output: Output = TABLE,
) -> None:
    """Check the integrity of an answer repository.

    Verifies checksums, row counts, duplicates, schemas, manifests and scores; prints a line for each problem.

    Args:
        answer_set: Answer set id (the first digits are enough), model or alias. All answer sets if not given.
        revision: Branch, tag or commit of the repository; the newest commit if not given.
        sweep: First put the files of a folder right that a kill in a commit left: shards that no commit lists go out of the
            way (their content is kept in `.regrade/objects`), and committed files go to their paths.

    Examples:
        verify
        verify 1f0c6a2b --answers hf://datasets/ORG/NAME
    """
    repository = open_repository(answers or default_answers(), create=False)
    if sweep and isinstance(repository, LocalRepository):
        repository.tidy()
    pinned = repository.resolve(revision) if revision else newest_revision(repository)
    if answer_set is not None:
        answer_set = named_id(repository, pinned, answer_set)
    report = verify_repository(repository, pinned, answer_set)
    n_problems = len(report.problems)

    def draw() -> None:
        for problem in report.problems:
            stdout.print(visible(f"{problem.path}: {problem.problem}"))
        stdout.print(
            f"{counted(report.answer_sets, 'answer set')}, {counted(report.shards, 'shard')}, "
            f"{counted(report.rows, 'intact row')}, {counted(report.scorings, 'scoring')} in "
            f"{visible(repository.uri)} at {pinned[:12]}: {counted(n_problems, 'problem')}"
        )

    output.show({"repository": repository.uri, "revision": pinned, **asdict(report)}, draw)
    if n_problems:
        raise NotIntactError(repository.uri, n_problems, report.damaged_shards)
