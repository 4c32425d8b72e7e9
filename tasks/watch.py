"""Watch answer sets for verdicts that are sure before all questions are answered (`--stop-when-sure`)."""

import logging
from collections.abc import Sequence

from regrade.answers.publishing import publish_answers
from regrade.answers.sets import AnswerSet, find_set
from regrade.comparing.sides import find_side
from regrade.comparing.stopping import Baseline, Watch
from regrade.jobs.job import EvaluationJob
from regrade.records.columns import GENERATION_SCHEMA
from tasks.work import Work

logger = logging.getLogger("regrade.plan")


def watch_verdicts(job: EvaluationJob, works: Sequence[Work]) -> None:
    """Watch each answer set whose benchmark the baseline has, if the job asks for it.

    Raises:
        SettingsError: If a benchmark does not allow it.
        RepositoryError: If the baseline does not exist.
        DamagedAnswersError: If it is damaged.
    """
    settings = job.gate
    if settings is None or not settings.stop_when_sure:
        return
    side = find_side(settings.baseline, settings.base_answers or job.answers, job.names)
    read = []
    for work in works:
        base = side.sets.get(work.plan.specification.benchmark.name)
        if base is not None and base.manifest.answer_set_id != work.answers.manifest.answer_set_id:
            ids = [sample.id for sample in work.plan.samples]
            candidate = work.answers.manifest
            found = Baseline.read(base, candidate, ids, settings, job.scoring_options)
            read.append((work, found, candidate, ids))
    for work, found, candidate, ids in read:
        work.watch = Watch(found, candidate, ids, settings, job.scoring_options, tests=len(read))


def look_at_stored(work: Work) -> None:
    """Count the stored answers of an answer set that is watched; leave the rest out if the verdict is already sure.

    Raises:
        RepositoryError: If answers that an earlier run left in the spool cannot be published.
        DamagedAnswersError: If stored answers are damaged.
    """
    if work.watch is None or not 0 < len(work.requests) < work.plan.rows:
        return
    if work.spool.rows:
        publish_answers(work.repository, work.spool, work.plan.description, only_new=True)
    stored = find_set(work.repository, work.plan.specification, work.repository.head())
    if stored is None:
        return
    _add(work.watch, stored, {(sample.id, repeat) for sample, repeat in work.requests.rows})
    work.stopped = work.watch.look()
    if work.stopped is not None:
        work.requests, work.published = work.plan.requests([]), stored
        logger.info("%s: %s, nothing to generate", work.title, work.stopped)


def _add(watch: Watch, stored: AnswerSet, missing: set[tuple[str, int]]) -> None:
    for batch in stored.batches(GENERATION_SCHEMA.names):
        rows = batch.to_pylist()
        watch.add([row for row in rows if (row["sample_id"], row["repeat"]) not in missing])
