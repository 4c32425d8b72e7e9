"""`regrade verify`."""

from dataclasses import asdict

from regrade.answers.opening import open_repository
from regrade.answers.verify import NotIntactError
from regrade.answers.verify import verify as verify_repository
from regrade.cli.options import Answers
from regrade.cli.output import TABLE, Output
from regrade.cli.terminal import plain, stdout
from regrade.errors import RepositoryError
from regrade.job import default_answers


def verify(
    answer_set: str | None = None,
    *,
    answers: Answers = None,
    revision: str | None = None,
    output: Output = TABLE,
) -> None:
    """Check the integrity of an answer repository.

    Checks checksums, row counts, duplicates, schemas, manifests and scores; prints one line for each problem.

    Args:
        answer_set: Id of the answer set, of which the first digits are enough; all if not given.
        revision: Branch, tag or commit of the repository; the newest commit if not given.
    """
    repository = open_repository(answers or default_answers(), create=False)
    pinned = repository.resolve(revision) if revision else repository.head()
    if pinned is None:
        raise RepositoryError(repository.uri, "nothing was ever committed to it.")
    found = verify_repository(repository, pinned, answer_set)
    n_problems = len(found.problems)

    def draw() -> None:
        for problem in found.problems:
            stdout.print(plain(f"{problem.path}: {problem.problem}"))
        stdout.print(
            f"{found.answer_sets} answer sets, {found.shards} shards, {found.rows:,} intact rows, "
            f"{found.scorings} scorings in {plain(repository.uri)} at {pinned[:12]}: "
            f"{n_problems} problem{'' if n_problems == 1 else 's'}"
        )

    output.show({"repository": repository.uri, "revision": pinned, **asdict(found)}, draw)
    if n_problems:
        raise NotIntactError(repository.uri, n_problems)
