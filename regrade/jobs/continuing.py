"""Find the rows that a stored answer set lacks."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from regrade.answers.base import Repository
from regrade.answers.documents import HEAL
from regrade.answers.manifest import Session
from regrade.answers.origin import read_origin
from regrade.answers.rows import RowKey, RowStates
from regrade.answers.sets import AnswerSet, find_set
from regrade.answers.spool import Spool, spool_folder
from regrade.answers.verify import intact_part
from regrade.jobs.plan import Ordered, Plan
from regrade.jobs.turns import Before, stored_before
from regrade.records import Sample
from regrade.settings import Reuse
from regrade.settings.errors import DamagedAnswersError
from regrade.text.text import counted

logger = logging.getLogger("regrade.plan")


@dataclass(frozen=True, slots=True)
class Remaining:
    """The part of an answer set that is not generated yet."""

    stored: AnswerSet | None
    missing: list[tuple[Sample, int]]
    """Pairs of sample and repeat."""
    replaced: tuple[str, ...] = ()
    """sha256 of stored shards whose rows are generated again."""
    fresh: bool = False
    """The replaced shards can be read."""
    sessions: tuple[Session, ...] = ()
    """Earlier sessions whose rows are kept."""
    before: Mapping[RowKey, Before] = field(default_factory=dict)
    """Stored answers before the turns of conversations that are missing, if the turn before is not."""


def kept(plan: Plan, repository: Repository, suffix: str = "") -> Plan:
    """Return the plan with the id that its answers have, in the repository or in the spool with this suffix.

    Earlier ids depended on the spelling of settings, and earlier defaults of sampling were others.
    """
    if not plan.earlier:
        return plan
    head = repository.head()
    if find_set(repository, plan.specification, head) is not None:
        return plan
    for earlier in plan.earlier:
        spool = spool_folder(repository.uri, earlier.answer_set_id, suffix)
        if spool.exists() or find_set(repository, earlier, head) is not None:
            logger.info(
                "%s: the answers stored as %s are taken, the id that an earlier version gave these settings%s",
                earlier.title,
                earlier.answer_set_id,
                ""
                if earlier.sampling == plan.specification.sampling
                else ", with the sampling that was its default; settings by hand, such as `--max-tokens`, begin new answers",
            )
            return replace(plan, specification=earlier, earlier=())
    return plan


def log_version_1(plan: Plan, repository: Repository) -> None:
    """Log that a new answer set begins if the stored one has version 1 of the format, which is not continued."""
    head = repository.head()
    if head is None or find_set(repository, plan.specification, head) is not None:
        return
    folder = f"answers/{plan.version_1}"
    if f"{folder}/manifest.json" in repository.files(head, folder):
        logger.info(
            "%s: a new answer set begins; the stored one (%s) has format version 1, which is read but not continued",
            plan.specification.title,
            folder.rpartition("/")[2],
        )


def remaining(
    plan: Plan, repository: Repository, spool: Spool, reuse: Reuse, ordered: Ordered | None = None
) -> Remaining:
    """Return the rows that are neither in the repository nor in the open spool.

    Args:
        plan: The answer set.
        repository: Its repository.
        spool: Its open spool.
        reuse: Use of stored answers.
        ordered: Decides the order of the rows. None: as in the benchmark.

    Raises:
        DamagedAnswersError: If a stored shard cannot be read, unless `reuse.heal` is set.
    """
    stored = find_set(repository, plan.specification, repository.head())
    origin = read_origin(spool)
    shards = {shard.sha256 for shard in stored.manifest.shards} if stored else set()
    replaced, fresh = set(), False
    if origin is not None and origin.replaced:  # interrupted: with the same replaced shards
        replaced, fresh = set(origin.replaced), origin.fresh
    elif reuse.fresh and shards:
        replaced, fresh = shards, True
        logger.info(
            "%s: all %s are generated again. If this is interrupted, go on without `--fresh`",
            plan.specification.title,
            counted(stored.manifest.rows if stored else 0, "answer"),
        )
    elif reuse.heal and stored is not None:
        intact, problems = intact_part(stored)
        for problem in problems:
            logger.warning("%s: %s Its rows are generated again", problem.path, problem.problem)
        replaced = shards - {shard.sha256 for shard in intact.manifest.shards}
        if (
            replaced and plan.converses
        ):  # later turns may be in other shards than those that they follow
            logger.warning("All conversations are asked again: their turns follow each other")
            replaced = shards
    if stored is not None and not replaced and _is_complete(stored):
        return Remaining(stored, [])
    states = RowStates()
    left = stored.only(shards - replaced) if stored is not None else None
    if left is not None:
        states.update(_states(left, spool))
    states.update(spool.states())
    done = states.done | states.failed if reuse.keep_failed else states.done
    kept = (
        *(stored.manifest.sessions if stored is not None and not fresh else ()),
        *(origin.sessions if origin is not None else ()),
    )
    missing = plan.missing(done, ordered)
    before = stored_before(missing, left, spool)
    return Remaining(stored, missing, tuple(sorted(replaced)), fresh, kept, before)


def _is_complete(stored: AnswerSet) -> bool:
    """Return True if no row is missing or open; in version 1 only the rows tell whether a request failed."""
    known = all(shard.failed is not None for shard in stored.manifest.shards)
    return known and stored.manifest.state == "complete"


def _states(stored: AnswerSet, spool: Spool) -> RowStates:
    try:
        return stored.states(spool.shard_states)
    except DamagedAnswersError as error:
        raise DamagedAnswersError(error.path, f"{error.problem} {HEAL}") from error
