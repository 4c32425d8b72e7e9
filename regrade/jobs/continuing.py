"""Continue stored answers: choose the answer set that a plan continues, and find the rows that it lacks."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from regrade.answers.base import Repository
from regrade.answers.documents import HEAL
from regrade.answers.manifest import Session
from regrade.answers.origin import noted_origin, read_origin
from regrade.answers.rows import RowStates
from regrade.answers.sets import AnswerSet, find_set
from regrade.answers.spool import Spool, spool_folder
from regrade.answers.verify import intact_part
from regrade.engines.base import BaseEngineSettings
from regrade.jobs.plan import Plan
from regrade.jobs.shares import Share
from regrade.records import Sample
from regrade.settings import Reuse
from regrade.settings.errors import DamagedAnswersError

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
    """Earlier sessions whose rows stay."""


def stored_plan(plan: Plan, repository: Repository, engine: BaseEngineSettings) -> Plan:
    """Return the plan for the answer set that exists: that of version 1 of the format, if it has the same answers.

    Args:
        plan: Plan of the current version.
        repository: Repository to publish to.
        engine: Settings of the engine.
    """
    earlier = plan.version_1
    head = repository.head()
    if earlier is None or find_set(repository, plan.specification, head) is not None:
        return plan
    stored = find_set(repository, earlier, head)
    origin = noted_origin(spool_folder(repository.uri, earlier.answer_set_id))
    if stored is None and origin is None:
        return plan
    sessions = [
        *(stored.manifest.sessions if stored else ()),
        *(origin.sessions if origin else ()),
    ]
    if (difference := _difference(plan, sessions, engine)) is not None:
        logger.info(
            "%s: answer set %s is not continued, because %s",
            plan.specification.title,
            earlier.answer_set_id,
            difference,
        )
        return plan
    return replace(plan, specification=earlier)


def remaining(
    plan: Plan, repository: Repository, spool: Spool, reuse: Reuse, share: Share | None = None
) -> Remaining:
    """Return the rows that are neither in the repository nor in the open spool.

    Args:
        plan: The answer set.
        repository: Its repository.
        spool: Its open spool.
        reuse: Use of stored answers.
        share: Place of this machine among several; it decides the order of the rows.

    Raises:
        DamagedAnswersError: If a stored shard cannot be read, unless `reuse.heal` is set.
    """
    stored = find_set(repository, plan.specification, repository.head())
    origin = read_origin(spool)
    shards = {shard.sha256 for shard in stored.manifest.shards} if stored else set()
    replaced, fresh = set(), False
    if origin is not None and origin.replaced:  # interrupted: go on with what it replaced
        replaced, fresh = set(origin.replaced), origin.fresh
    elif reuse.fresh and shards:
        replaced, fresh = shards, True
        logger.info(
            "%s: all %d answers are generated again. If this is interrupted, go on without `--fresh`",
            plan.specification.title,
            stored.manifest.rows if stored else 0,
        )
    elif reuse.heal and stored is not None:
        intact, problems = intact_part(stored)
        for problem in problems:
            logger.warning("%s: %s Its rows are generated again", problem.path, problem.problem)
        replaced = shards - {shard.sha256 for shard in intact.manifest.shards}
    if stored is not None and not replaced and _is_complete(stored):
        return Remaining(stored, [])
    states = RowStates()
    if stored is not None:
        states.update(_states(stored.only(shards - replaced), spool))
    states.update(spool.states())
    done = states.done | states.failed if reuse.keep_failed else states.done
    kept = (
        *(stored.manifest.sessions if stored is not None and not fresh else ()),
        *(origin.sessions if origin is not None else ()),
    )
    return Remaining(stored, plan.missing(done, share), tuple(sorted(replaced)), fresh, kept)


def _is_complete(stored: AnswerSet) -> bool:
    """Return True if no row is missing or open; in version 1 only the rows tell whether a request failed."""
    known = all(shard.failed is not None for shard in stored.manifest.shards)
    return known and stored.manifest.state == "complete"


def _states(stored: AnswerSet, spool: Spool) -> RowStates:
    try:
        return stored.states(spool.shard_states)
    except DamagedAnswersError as error:
        raise DamagedAnswersError(error.path, f"{error.problem} {HEAL}") from error


def _difference(plan: Plan, sessions: Iterable[Session], engine: BaseEngineSettings) -> str | None:
    """Say how the engine of sessions of version 1 differs; None if it computed the same.

    Version 1 noted the settings of the engine for each session, but not in the specification.
    """
    for session in sessions:
        settings = session.engine_settings
        # `auto` is another precision on a CPU; on two GPUs it is the same for the same checkpoint.
        on_gpus = session.device != "cpu" and "dtype" not in plan.specification.engine
        if "dtype" in settings and session.dtype is not None and not on_gpus:
            settings = {**settings, "dtype": session.dtype}
        computed = _identity(plan, engine, settings)
        if computed is None:
            return "its engine's settings cannot be read"
        if computed != plan.specification.engine:
            return f"it was generated with engine settings {computed or 'by default'}"
    return None


def _identity(
    plan: Plan, engine: BaseEngineSettings, settings: Mapping[str, Any]
) -> dict[str, Any] | None:
    try:
        then = type(engine).model_validate(settings)
    except ValidationError:
        return None
    return then.identity(plan.model, truncate=plan.specification.prompt.truncate)
