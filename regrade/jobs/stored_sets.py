"""Choose the stored answer sets that a scoring job names."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC

from regrade.answers.opening import newest_revision, open_repository
from regrade.answers.sets import AnswerSet, readable_sets
from regrade.jobs.job import FILTERS, ScoringJob
from regrade.settings.errors import DamagedAnswersError, RepositoryError


@dataclass(frozen=True, slots=True)
class ChosenSets:
    """Answer sets that match the filters of a job, all at one commit."""

    uri: str
    """Address of the repository."""
    sets: Sequence[AnswerSet]
    damaged: Sequence[DamagedAnswersError]
    """Chosen answer sets that cannot be read."""


def choose_sets(job: ScoringJob) -> ChosenSets:
    """Return the answer sets that match the filters of a job.

    Raises:
        RepositoryError: If the repository does not exist, or no answer set matches.
        HubError: If the Hub does not answer.
    """
    repository = open_repository(job.answers, create=False)
    pinned = repository.resolve(job.revision) if job.revision else newest_revision(repository)
    readable, damaged = readable_sets(
        repository, pinned, benchmark=job.benchmark, model=job.model, answer_set_id=job.answer_set
    )
    sets = [answers for answers in readable if _is_between(answers, job)]
    if not sets and not damaged:
        given = [f"`{name}={value}`" for name in FILTERS if (value := getattr(job, name))]
        matching = f" matches {' and '.join(given)}" if given else " is in it"
        raise RepositoryError(repository.uri, f"no answer set{matching}. `regrade list` shows all.")
    return ChosenSets(repository.uri, sets, damaged)


def _is_between(answers: AnswerSet, job: ScoringJob) -> bool:
    created = answers.manifest.created_at.astimezone(UTC).date()
    updated = answers.manifest.updated_at.astimezone(UTC).date()
    return (job.since is None or updated >= job.since) and (
        job.until is None or created <= job.until
    )
