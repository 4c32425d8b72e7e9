"""`regrade verify`."""

from dataclasses import asdict

from regrade.answers.opening import open_repository
from regrade.answers.verify import NotIntactError, Verified
from regrade.answers.verify import verify as verify_repository
from regrade.cli.options import Answers, Json
from regrade.cli.output import print_json
from regrade.cli.terminal import plain, stdout
from regrade.errors import RepositoryError
from regrade.job import default_answers


def verify(
    answer_set: str | None = None,
    *,
    answers: Answers = None,
    revision: str | None = None,
    json: Json = False,
) -> None:
    """Check checksums, row counts, duplicates, schemas, manifests and scores; one line for each problem.

    Args:
        answer_set: Id of the answer set, of which the first digits are enough; everything if not given.
        answers: Answer repository.
        revision: Branch, tag or commit of the repository; the newest commit if not given.
        json: Print JSON.
    """
    repository = open_repository(answers or default_answers(), create=False)
    pinned = repository.resolve(revision) if revision else repository.head()
    if pinned is None:
        raise RepositoryError(repository.uri, "nothing was ever committed to it.")
    found = verify_repository(repository, pinned, answer_set)
    if json:
        print_json({"repository": repository.uri, "revision": pinned, **asdict(found)})
    else:
        _print(found, repository.uri, pinned)
    if found.problems:
        raise NotIntactError(repository.uri, len(found.problems))


def _print(found: Verified, uri: str, revision: str) -> None:
    for one in found.problems:
        stdout.print(plain(f"{one.path}: {one.problem}"))
    stdout.print(
        f"{found.answer_sets} answer sets, {found.shards} shards, {found.rows:,} intact rows, "
        f"{found.scorings} scorings in {plain(uri)} at {revision[:12]}: {len(found.problems)} problems"
    )
