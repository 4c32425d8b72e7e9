"""Flow `tune-settings`: find the fastest engine settings for a model, this machine and a kind of workload."""

import logging
import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import cycle, islice

from prefect import flow

from flows import generating
from flows.engine_session import EngineSession
from flows.scoring import spent_on
from regrade.answers.publishing import keep_document
from regrade.jobs.generate import Progress
from regrade.orchestration.artifacts import TUNING_KEY, show
from regrade.orchestration.form import form, takes
from regrade.orchestration.worker import engine_no_longer_needed
from regrade.results.display import timed
from regrade.settings.errors import SettingsError
from regrade.settings.project_folder import VERSION
from regrade.stats.speed import Speed
from regrade.text.markdown import markdown
from regrade.tuning.plan.planner import splits_to_try
from regrade.tuning.search.job import TuneJob, key_to_tune
from regrade.tuning.search.records import TrialRecord, Tuning, TuningKey
from regrade.tuning.search.result import TuneResult, blocks
from regrade.tuning.search.rule import FIRST, MOST, TOKENS, Search
from tasks.work import Work

logger = logging.getLogger("regrade.tune")
WAVES = 4
"""Questions per request in flight: at the end of a measurement, when less and less are left, the engine is not full."""
FEWEST = 32
"""Fewest questions of a measurement."""


def run_name() -> str:
    """Name of the flow run: `tune <model>: <benchmark>`."""
    return f"tune {generating.run_name()}"


@form
@flow(name="tune-settings", flow_run_name=run_name)
@takes(TuneJob)
@timed()
def tune_settings(job: TuneJob) -> TuneResult:
    """Find the fastest engine settings for a model, this machine and a kind of workload; the answers made are kept."""
    with generating.plan(job) as (work,):
        key = key_to_tune(job, work.plan)
        with EngineSession() as engines:
            search = _Search(job, work, engines)
            search.run(splits_to_try(job, key.hardware.gpus))
        engine_no_longer_needed()
        generating.publish([work])
    tuning = _tuning(work, key, search)
    message = f"Tuned {key.model.name} for {tuning.benchmark}"
    keep_document(work.repository, key.path, tuning, message)
    result = TuneResult(
        tuning=tuning,
        path=key.path,
        repository=work.repository.uri,
        answer_set_id=work.plan.specification.answer_set_id,
        answers_made=search.answers_made,
        rows=work.answers.manifest.rows,
        expected_rows=work.plan.rows,
        load_seconds=search.load_seconds,
        measure_seconds=sum(trial.seconds for trial in search.trials),
        time_spent=spent_on(search.measured),
    )
    show(TUNING_KEY, markdown(blocks(result)), f"Tuned {key.model.name}")
    return result


class _Search(Search):
    """A search with the questions of an answer set: first those without an answer, then all, again and again."""

    def __init__(self, job: TuneJob, work: Work, engines: EngineSession) -> None:
        by_hand = getattr(job.engine, TOKENS, None) is not None
        super().__init__(1 if job.limits.given else FIRST, job.starts, vary_tokens=not by_hand)
        self._job, self._work, self._engines = job, work, engines
        self._missing = work.requests.rows
        self._all = work.plan.requests(work.plan.missing(set()), work.sessions)
        self._again = cycle(self._all.rows)
        self._settings: dict[str, int] = {}
        self.answers_made = 0
        """Answers generated that the answer set did not have."""
        self.load_seconds = 0.0

    def start(self, settings: Mapping[str, int]) -> int:
        """Start an engine with these settings; see `Search`."""
        most, given = self._job.most_in_flight, self._job.engine
        sizes = {"max_num_seqs": _per_copy(most, settings)} if most else {}
        by_hand = given.model_dump(exclude_unset=True, exclude={"tuned"})
        engine = type(given).model_validate({**sizes, **by_hand, **settings})
        self._work.requests = self._all  # whose lengths decide the engine's context
        job = self._job.model_copy(update={"engine": engine})
        self._engines.end()
        info = self._engines.load(job, [self._work]).info
        self.load_seconds += info.load_seconds
        tokens = info.max_num_batched_tokens
        self._settings = {**settings} if tokens is None else {**settings, TOKENS: tokens}
        return min(filter(None, (MOST, max(1, len(self._all) // 2), info.max_num_seqs, most)))

    def measure(self, in_flight: int) -> TrialRecord:
        """Answer some questions, at most `in_flight` at a time; see `Search`."""
        engines, work = self._engines, self._work
        engines.limit(in_flight)
        n = min(max(FEWEST, WAVES * in_flight), len(self._all))
        if len(self._missing) >= n:
            rows, self._missing = self._missing[:n], self._missing[n:]
            work.requests = replace(self._all, rows=rows, later=len(self._missing))
            engines.answer([work])
            progress = work.progress or Progress(n)
            self.answers_made += progress.new
        else:
            progress = engines.measure(replace(self._all, rows=[*islice(self._again, n)]))
        if not progress.answered:
            raise SettingsError(
                f"None of {n:,} requests was answered, so that nothing can be measured. `regrade generate` shows the errors."
            )
        self.measured.append(progress)
        ranks = work.plan.specification.method == "rank"
        rate = (progress.answered if ranks else progress.completion_tokens) / progress.seconds
        logger.info("%d in flight: %.1f per second, of %d questions", in_flight, rate, n)
        return TrialRecord(
            start=self.starts - 1,
            settings=self._settings,
            in_flight=in_flight,
            rate=rate,
            requests=n,
            seconds=progress.seconds,
            broken=(engines.speed or Speed()).above(self._job.limits.given),
            speed=engines.speed,
        )


def _per_copy(in_flight: int, settings: Mapping[str, int]) -> int:
    """Return `max_num_seqs` for requests in flight, which vLLM divides between the copies of a model."""
    return math.ceil(in_flight / settings.get("data_parallel_size", 1))


def _tuning(work: Work, key: TuningKey, search: Search) -> Tuning:
    """Return the settings that the search found.

    Raises:
        SettingsError, EngineError: If it found none.
    """
    chosen = search.found()
    # The tokens of a step are kept where they differ from the default.
    default = search.trials[0].settings.get(TOKENS) if search.vary_tokens else None
    settings = {k: v for k, v in chosen.settings.items() if k != TOKENS or v != default}
    return Tuning(
        key=key,
        benchmark=work.plan.specification.benchmark.name,
        measured_at=datetime.now(UTC),
        regrade_version=VERSION,
        settings={"max_num_seqs": _per_copy(chosen.in_flight, settings), **settings},
        in_flight=chosen.in_flight,
        rate=chosen.rate,
        spread=search.spread,
        starts=search.starts,
        trials=tuple(search.trials),
        remarks=tuple(search.remarks),
    )
